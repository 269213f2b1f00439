/// The coordinates of the non-zeros of an `m x k` matrix, in canonical order.
///
/// Rows are outputs and columns are inputs. Compressed rows are stored: `m + 1` row offsets and one
/// 32-bit column index per non-zero. Both dimensions, and the number of non-zeros, are at most
/// `i32::MAX`, so that every index fits the 32-bit signed indices of the devices; `m * k` may be
/// larger. Either dimension may be 0.
///
/// # Example
///
/// ```
/// use snack_burn::pattern::Pattern;
///
/// let pattern = Pattern::from_coordinates([2, 3], &[0, 1, 1], &[2, 0, 1]).unwrap();
///
/// assert_eq!(pattern.nnz(), 3);
/// assert_eq!(pattern.row(1), [0, 1]);
/// assert_eq!(pattern.slot_of(1, 0), Some(1));
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Pattern {
    pub(super) shape: [usize; 2],
    pub(super) row_offsets: Vec<usize>,
    pub(super) cols: Vec<u32>,
}
