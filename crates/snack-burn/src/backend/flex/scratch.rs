//! Memory of a call.

use core::ops::{Deref, DerefMut};

use super::real::Real;

/// Bytes of a cache line.
const LINE: usize = 64;

/// Zeros that start at a cache line. Vectors of lanes then lie across no more lines than they
/// fill; an allocator aligns to 16 bytes only, which doubles the lines that 16 `f32` touch.
pub(super) struct Scratch<T> {
    buffer: Vec<T>,
    start: usize,
    len: usize,
}

impl<T: Real> Scratch<T> {
    pub(super) fn zeros(len: usize) -> Self {
        let slack = LINE / size_of::<T>();
        let buffer = vec![T::ZERO; len + slack];
        let start = buffer.as_ptr().align_offset(LINE).min(slack);
        Self { buffer, start, len }
    }
}

impl<T> Deref for Scratch<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        &self.buffer[self.start..self.start + self.len]
    }
}

impl<T> DerefMut for Scratch<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.buffer[self.start..self.start + self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn starts_at_a_line() {
        for len in [0, 1, 3, 16, 100, 100_000] {
            let mut scratch = Scratch::<f64>::zeros(len);
            assert_eq!(scratch.as_ptr() as usize % LINE, 0);
            assert_eq!(scratch.len(), len);
            scratch.fill(1.0);
        }
    }
}
