use super::Pattern;
use super::builder::Builder;
use crate::error::SparseError;

/// Which of two patterns a coordinate belongs to.
#[derive(Clone, Copy, PartialEq)]
enum Membership {
    Left,
    Right,
    Both,
}

impl Pattern {
    /// Number of coordinates that are non-zeros of both patterns.
    ///
    /// # Errors
    ///
    /// [`SparseError::ShapeMismatch`].
    pub fn overlap(&self, other: &Self) -> Result<usize, SparseError> {
        let mut count = 0;
        self.merge(other, |_, _, member| {
            count += usize::from(member == Membership::Both);
            Ok(())
        })?;
        Ok(count)
    }

    /// The coordinates of either pattern.
    ///
    /// # Errors
    ///
    /// [`SparseError::ShapeMismatch`], or [`SparseError::TooManySlots`].
    pub fn union(&self, other: &Self) -> Result<Self, SparseError> {
        self.select(other, |_| true)
    }

    /// The coordinates of both patterns.
    ///
    /// # Errors
    ///
    /// [`SparseError::ShapeMismatch`].
    pub fn intersection(&self, other: &Self) -> Result<Self, SparseError> {
        self.select(other, |member| member == Membership::Both)
    }

    /// The coordinates of this pattern that are not in the other one.
    ///
    /// # Errors
    ///
    /// [`SparseError::ShapeMismatch`].
    pub fn difference(&self, other: &Self) -> Result<Self, SparseError> {
        self.select(other, |member| member == Membership::Left)
    }

    fn select(&self, other: &Self, keep: impl Fn(Membership) -> bool) -> Result<Self, SparseError> {
        let mut builder = Builder::new(self.shape, 0)?;
        self.merge(other, |row, col, member| {
            if keep(member) {
                builder.push(row, col)
            } else {
                Ok(())
            }
        })?;
        Ok(builder.finish())
    }

    /// Visits the coordinates of both patterns in canonical order, each once.
    fn merge(
        &self,
        other: &Self,
        mut visit: impl FnMut(usize, u32, Membership) -> Result<(), SparseError>,
    ) -> Result<(), SparseError> {
        if self.shape != other.shape {
            return Err(SparseError::ShapeMismatch {
                what: "other pattern",
                expected: self.shape.to_vec(),
                found: other.shape.to_vec(),
            });
        }
        for row in 0..self.rows() {
            let (mut left, mut right) = (self.row(row), other.row(row));
            while let Some((col, member)) = next(&mut left, &mut right) {
                visit(row, col, member)?;
            }
        }
        Ok(())
    }
}

/// Takes the smallest column off the front of two increasing lists.
fn next(left: &mut &[u32], right: &mut &[u32]) -> Option<(u32, Membership)> {
    let (col, member) = match (left.first(), right.first()) {
        (None, None) => return None,
        (Some(&col), None) => (col, Membership::Left),
        (None, Some(&col)) => (col, Membership::Right),
        (Some(&a), Some(&b)) if a < b => (a, Membership::Left),
        (Some(&a), Some(&b)) if a > b => (b, Membership::Right),
        (Some(&col), Some(_)) => (col, Membership::Both),
    };
    if member != Membership::Right {
        *left = &left[1..];
    }
    if member != Membership::Left {
        *right = &right[1..];
    }
    Some((col, member))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn by_hand() {
        let left = Pattern::from_sorted_flats([2, 3], [0, 2, 3]).unwrap();
        let right = Pattern::from_sorted_flats([2, 3], [2, 3, 5]).unwrap();
        let flats = |pattern: Result<Pattern, _>| pattern.unwrap().flats().collect::<Vec<_>>();
        assert_eq!(left.overlap(&right), Ok(2));
        assert_eq!(flats(left.union(&right)), [0, 2, 3, 5]);
        assert_eq!(flats(left.intersection(&right)), [2, 3]);
        assert_eq!(flats(left.difference(&right)), [0]);
    }

    #[test]
    fn refuses_other_shapes() {
        let left = Pattern::empty([2, 3]).unwrap();
        let right = Pattern::empty([3, 2]).unwrap();
        let error = SparseError::ShapeMismatch {
            what: "other pattern",
            expected: vec![2, 3],
            found: vec![3, 2],
        };
        assert_eq!(left.overlap(&right), Err(error.clone()));
        assert_eq!(left.union(&right), Err(error));
    }
}
