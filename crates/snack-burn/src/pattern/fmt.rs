use super::Pattern;
use core::fmt;

/// One line with shape, number of non-zeros and density in percent.
impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [rows, cols] = self.shape;
        let percent = 100.0 * self.density();
        write!(
            f,
            "Pattern {rows}x{cols}, {} non-zeros (density {percent:.2} %)",
            self.nnz()
        )
    }
}

/// Shape and number of non-zeros only: the lists may hold millions of entries.
impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Pattern")
            .field("shape", &self.shape)
            .field("nnz", &self.nnz())
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn short_texts() {
        let flats = (0..235_930).map(|slot| slot * 10);
        let pattern = Pattern::from_sorted_flats([3072, 768], flats).unwrap();
        let line = "Pattern 3072x768, 235930 non-zeros (density 10.00 %)";
        assert_eq!(pattern.to_string(), line);
        assert_eq!(
            format!("{pattern:?}"),
            "Pattern { shape: [3072, 768], nnz: 235930, .. }"
        );
    }
}
