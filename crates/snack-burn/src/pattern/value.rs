use half::{bf16, f16};

/// An element type of the non-zeros.
///
/// Only what the host needs: sums run in `f64`, whatever the type.
pub trait Value: Copy + PartialEq + Send + Sync + core::fmt::Debug + 'static {
    /// The same number in double precision, exactly.
    fn to_f64(self) -> f64;

    /// The nearest number of this type.
    fn from_f64(value: f64) -> Self;

    /// Whether the number equals zero, of either sign. NaN does not.
    fn is_zero(self) -> bool {
        self.to_f64() == 0.0
    }
}

impl Value for f64 {
    fn to_f64(self) -> f64 {
        self
    }

    fn from_f64(value: f64) -> Self {
        value
    }
}

impl Value for f32 {
    fn to_f64(self) -> f64 {
        f64::from(self)
    }

    fn from_f64(value: f64) -> Self {
        value as f32
    }
}

impl Value for f16 {
    fn to_f64(self) -> f64 {
        f64::from(self)
    }

    fn from_f64(value: f64) -> Self {
        f16::from_f64(value)
    }
}

impl Value for bf16 {
    fn to_f64(self) -> f64 {
        f64::from(self)
    }

    fn from_f64(value: f64) -> Self {
        bf16::from_f64(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<T: Value>() {
        assert_eq!(T::from_f64(1.5).to_f64(), 1.5);
        assert!(T::from_f64(0.0).is_zero());
        assert!(T::from_f64(-0.0).is_zero());
        assert!(!T::from_f64(f64::NAN).is_zero());
    }

    #[test]
    fn round_trip_and_zero() {
        check::<f32>();
        check::<f64>();
        check::<f16>();
        check::<bf16>();
    }

    #[test]
    fn subnormal_is_not_zero() {
        assert!(!f16::from_bits(1).is_zero());
        assert!(!bf16::from_bits(1).is_zero());
        assert!(!f32::from_bits(1).is_zero());
    }
}
