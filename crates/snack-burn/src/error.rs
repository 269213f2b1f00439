//! The error type of the crate.

/// What can be wrong with a sparsity pattern or with the data that comes with it.
///
/// A `position` is the index in the list that the caller passed in, counted from 0.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum SparseError {
    /// A row or column index is below zero.
    #[error("{axis} index {index} at position {position} is negative, expected 0..{size}")]
    NegativeIndex {
        /// `"row"` or `"column"`.
        axis: &'static str,
        /// Where in the list.
        position: usize,
        /// The index found.
        index: i64,
        /// Size of the axis.
        size: usize,
    },
    /// A row index is not below the number of rows.
    #[error("row index {row} at position {position} is out of range, expected 0..{rows}")]
    RowOutOfRange {
        /// Where in the list.
        position: usize,
        /// The index found.
        row: i64,
        /// Number of rows `m`.
        rows: usize,
    },
    /// A column index is not below the number of columns.
    #[error("column index {col} at position {position} is out of range, expected 0..{cols}")]
    ColOutOfRange {
        /// Where in the list.
        position: usize,
        /// The index found.
        col: i64,
        /// Number of columns `k`.
        cols: usize,
    },
    /// A flat index `row * k + col` is not below `m * k`.
    #[error("flat index {flat} at position {position} is out of range, expected 0..{size}")]
    FlatOutOfRange {
        /// Where in the list.
        position: usize,
        /// The flat index found.
        flat: u64,
        /// Number of coordinates `m * k`.
        size: u64,
    },
    /// A coordinate comes before its predecessor in row-major order.
    #[error(
        "coordinate ({row}, {col}) at position {position} follows ({previous_row}, \
         {previous_col}), expected strictly increasing row-major order"
    )]
    Unsorted {
        /// Where in the list.
        position: usize,
        /// Row found.
        row: usize,
        /// Column found.
        col: usize,
        /// Row of the coordinate just before.
        previous_row: usize,
        /// Column of the coordinate just before.
        previous_col: usize,
    },
    /// A coordinate occurs more than once.
    #[error(
        "coordinate ({row}, {col}) at position {position} is a repetition, \
         expected every coordinate at most once"
    )]
    Duplicate {
        /// Where in the list the coordinate occurs again.
        position: usize,
        /// Row of the coordinate.
        row: usize,
        /// Column of the coordinate.
        col: usize,
    },
    /// A coordinate that must be inactive belongs to the pattern.
    #[error(
        "coordinate ({row}, {col}) at position {position} is a non-zero of the pattern, \
         expected an inactive coordinate"
    )]
    NotInactive {
        /// Where in the list.
        position: usize,
        /// Row of the coordinate.
        row: usize,
        /// Column of the coordinate.
        col: usize,
    },
    /// A row offset is outside the range that its neighbours allow.
    #[error("row offset {offset} at position {position} is out of range, expected {low}..={high}")]
    InvalidOffsets {
        /// Where in the list of row offsets.
        position: usize,
        /// The offset found.
        offset: usize,
        /// Smallest offset allowed here.
        low: usize,
        /// Largest offset allowed here.
        high: usize,
    },
    /// A list does not have the length that the other arguments imply.
    #[error("{what} has length {found}, expected {expected}")]
    LengthMismatch {
        /// The list.
        what: &'static str,
        /// Length implied by the other arguments.
        expected: usize,
        /// Length found.
        found: usize,
    },
    /// Two shapes that must agree differ.
    #[error("{what} has shape {found:?}, expected {expected:?}")]
    ShapeMismatch {
        /// The operand at fault.
        what: &'static str,
        /// Shape that was expected.
        expected: Vec<usize>,
        /// Shape found.
        found: Vec<usize>,
    },
    /// A dimension cannot be addressed by the 32-bit signed indices of the devices.
    #[error(
        "shape {rows}x{cols} is too large, expected every dimension in 0..={}",
        i32::MAX
    )]
    ShapeTooLarge {
        /// Number of rows `m`.
        rows: usize,
        /// Number of columns `k`.
        cols: usize,
    },
    /// More non-zeros than coordinates were asked for.
    #[error(
        "{nnz} non-zeros do not fit a {rows}x{cols} matrix, expected 0..={}",
        u128::from(*rows as u64) * u128::from(*cols as u64)
    )]
    TooManyNonZeros {
        /// Number of non-zeros asked for.
        nnz: usize,
        /// Number of rows `m`.
        rows: usize,
        /// Number of columns `k`.
        cols: usize,
    },
    /// The slots cannot be addressed by the 32-bit signed indices of the devices.
    #[error("a pattern of {nnz} non-zeros is too large, expected 0..={}", i32::MAX)]
    TooManySlots {
        /// Number of non-zeros.
        nnz: u64,
    },
    /// A sparsity is not a number of `[0, 1)`.
    #[error("sparsity {value} is out of range, expected a number in [0, 1)")]
    InvalidSparsity {
        /// The sparsity found.
        value: f64,
    },
    /// More inactive coordinates were asked for than there are.
    #[error("{asked} inactive coordinates asked for, expected 0..={available}")]
    NotEnoughInactive {
        /// Number of coordinates asked for.
        asked: usize,
        /// Number of inactive coordinates that may be drawn.
        available: u64,
    },
    /// A row was to hold more non-zeros than there are columns.
    #[error("fan-in {fan_in} of row {row} is out of range, expected 0..={cols}")]
    FanInTooLarge {
        /// The row.
        row: usize,
        /// Number of non-zeros asked for.
        fan_in: usize,
        /// Number of columns `k`.
        cols: usize,
    },
    /// A fan-in profile has a number out of range.
    #[error(
        "{what} {value} of a fan-in profile is out of range, expected a finite number of at least 0"
    )]
    InvalidProfile {
        /// The number's meaning.
        what: &'static str,
        /// The number found.
        value: f64,
    },
    /// A list of rows or columns is not an increasing list of indices.
    #[error("{axis} index {index} at position {position} is out of range, expected {low}..{size}")]
    InvalidSet {
        /// `"row"` or `"column"`.
        axis: &'static str,
        /// Where in the list.
        position: usize,
        /// The index found.
        index: u32,
        /// One more than the index before.
        low: usize,
        /// Size of the axis.
        size: usize,
    },
    /// A row has fewer inactive coordinates than were asked for.
    #[error("{asked} inactive coordinates asked for in row {row}, expected 0..={available}")]
    NotEnoughInactiveInRow {
        /// The row.
        row: usize,
        /// Number of coordinates asked for.
        asked: usize,
        /// Number of inactive coordinates of the row.
        available: usize,
    },
    /// A gradient is infinite or not a number.
    #[error("the gradient at ({row}, {col}) is {gradient}, expected a finite number")]
    NonFiniteGradient {
        /// Row of the coordinate.
        row: usize,
        /// Column of the coordinate.
        col: usize,
        /// The gradient found.
        gradient: f32,
    },
}
