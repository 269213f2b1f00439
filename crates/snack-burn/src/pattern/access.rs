use super::Pattern;
use core::mem::size_of_val;

impl Pattern {
    /// `[m, k]`.
    pub fn shape(&self) -> [usize; 2] {
        self.shape
    }

    /// Number of rows `m`.
    pub fn rows(&self) -> usize {
        self.shape[0]
    }

    /// Number of columns `k`. [`Pattern::cols`] is the list of column indices.
    pub fn columns(&self) -> usize {
        self.shape[1]
    }

    /// Number of coordinates `m * k`.
    pub fn size(&self) -> u64 {
        self.shape[0] as u64 * self.shape[1] as u64
    }

    /// Number of non-zeros.
    pub fn nnz(&self) -> usize {
        self.cols.len()
    }

    /// Fraction of non-zeros, `nnz / (m * k)`. It is 0 if there are no coordinates.
    pub fn density(&self) -> f64 {
        match self.size() {
            0 => 0.0,
            size => self.nnz() as f64 / size as f64,
        }
    }

    /// Fraction of zeros, `1 - density`.
    pub fn sparsity(&self) -> f64 {
        1.0 - self.density()
    }

    /// `m + 1` slots: row `i` holds the slots `row_offsets[i]..row_offsets[i + 1]`.
    pub fn row_offsets(&self) -> &[usize] {
        &self.row_offsets
    }

    /// Column index of every slot, `[nnz]`.
    pub fn cols(&self) -> &[u32] {
        &self.cols
    }

    /// Column indices of one row, increasing.
    ///
    /// # Panics
    ///
    /// If `row >= m`.
    pub fn row(&self, row: usize) -> &[u32] {
        &self.cols[self.row_offsets[row]..self.row_offsets[row + 1]]
    }

    /// Row index of every slot, `[nnz]`.
    pub fn expand_rows(&self) -> Vec<u32> {
        let mut rows = Vec::with_capacity(self.nnz());
        for (row, end) in (0..).zip(&self.row_offsets[1..]) {
            rows.resize(*end, row);
        }
        rows
    }

    /// `(row, col)` of every slot.
    pub fn iter(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        (0..self.rows())
            .flat_map(move |row| self.row(row).iter().map(move |&col| (row, col as usize)))
    }

    /// Flat index `row * k + col` of one slot.
    ///
    /// # Panics
    ///
    /// If `slot >= nnz`.
    pub fn flat(&self, slot: usize) -> u64 {
        let col = self.cols[slot];
        let row = self.row_offsets.partition_point(|&offset| offset <= slot) - 1;
        self.flat_of(row, col as usize)
    }

    /// Flat index `row * k + col` of every slot, strictly increasing.
    pub fn flats(&self) -> impl Iterator<Item = u64> + '_ {
        self.iter().map(|(row, col)| self.flat_of(row, col))
    }

    /// The slot of a coordinate, or `None` if it is not a non-zero, which includes coordinates
    /// outside the matrix.
    pub fn slot_of(&self, row: usize, col: usize) -> Option<usize> {
        if row >= self.rows() {
            return None;
        }
        let col = u32::try_from(col).ok()?;
        let place = self.row(row).binary_search(&col).ok()?;
        Some(self.row_offsets[row] + place)
    }

    /// Whether a coordinate is a non-zero.
    pub fn contains(&self, row: usize, col: usize) -> bool {
        self.slot_of(row, col).is_some()
    }

    /// Number of non-zeros of every row, `[m]`.
    pub fn fan_in(&self) -> Vec<usize> {
        self.row_offsets
            .windows(2)
            .map(|pair| pair[1] - pair[0])
            .collect()
    }

    /// Number of non-zeros of every column, `[k]`.
    pub fn fan_out(&self) -> Vec<usize> {
        let mut counts = vec![0; self.columns()];
        for &col in &self.cols {
            counts[col as usize] += 1;
        }
        counts
    }

    /// Size of both lists in bytes.
    pub fn memory(&self) -> usize {
        size_of_val(self.row_offsets.as_slice()) + size_of_val(self.cols.as_slice())
    }

    pub(super) fn flat_of(&self, row: usize, col: usize) -> u64 {
        row as u64 * self.shape[1] as u64 + col as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern() -> Pattern {
        Pattern::from_coordinates([5, 3], &[1, 1, 3], &[0, 2, 1]).unwrap()
    }

    #[test]
    fn counts() {
        let pattern = pattern();
        assert_eq!((pattern.rows(), pattern.columns()), (5, 3));
        assert_eq!((pattern.size(), pattern.nnz()), (15, 3));
        assert_eq!(pattern.density(), 0.2);
        assert_eq!(pattern.sparsity(), 0.8);
        assert_eq!(pattern.fan_in(), [0, 2, 0, 1, 0]);
        assert_eq!(pattern.fan_out(), [1, 1, 1]);
        assert_eq!(pattern.memory(), 6 * size_of::<usize>() + 3 * 4);
    }

    #[test]
    fn density_of_empty_and_full() {
        assert_eq!(Pattern::empty([0, 3]).unwrap().density(), 0.0);
        assert_eq!(Pattern::empty([2, 3]).unwrap().density(), 0.0);
        assert_eq!(Pattern::full([2, 3]).unwrap().density(), 1.0);
    }

    #[test]
    fn coordinates_and_slots_agree() {
        let pattern = pattern();
        assert_eq!(pattern.expand_rows(), [1, 1, 3]);
        assert_eq!(pattern.iter().collect::<Vec<_>>(), [(1, 0), (1, 2), (3, 1)]);
        assert_eq!(pattern.flats().collect::<Vec<_>>(), [3, 5, 10]);
        for (slot, (row, col)) in pattern.iter().enumerate() {
            assert_eq!(pattern.flat(slot), (row * 3 + col) as u64);
            assert_eq!(pattern.slot_of(row, col), Some(slot));
        }
    }

    #[test]
    fn absent_coordinates() {
        let pattern = pattern();
        for (row, col) in [
            (0, 0),
            (1, 1),
            (5, 0),
            (1, 3),
            (usize::MAX, 0),
            (1, usize::MAX),
        ] {
            assert!(!pattern.contains(row, col));
        }
    }

    #[test]
    fn flat_indices_beyond_32_bits() {
        let last = 65_536 * 65_537 + 65_536;
        let pattern = Pattern::from_coordinates([65_537; 2], &[0, 65_536], &[7, 65_536]).unwrap();
        assert_eq!(pattern.size(), 65_537 * 65_537);
        assert_eq!(pattern.flats().collect::<Vec<_>>(), [7, last]);
        assert_eq!(
            pattern,
            Pattern::from_sorted_flats([65_537; 2], [7, last]).unwrap()
        );
    }
}
