//! What a criterion looks at.

use core::ops::BitOr;

/// The data that a criterion needs, beyond pattern and values.
///
/// The updater measures only what some criterion asks for. `|` joins two sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Signals {
    /// The gradient of the loss at the slots.
    pub gradient: bool,
    /// The factors of the dense gradient.
    pub factors: bool,
    /// The activity score of every slot.
    pub activity: bool,
    /// The age of every slot.
    pub ages: bool,
    /// The sign that every slot was born with.
    pub signs: bool,
    /// The coordinates that have ever been active.
    pub history: bool,
    /// Which inputs and outputs of the layer are reachable.
    pub functional: bool,
}

impl Signals {
    /// Pattern and values only.
    pub const NONE: Self = Self {
        gradient: false,
        factors: false,
        activity: false,
        ages: false,
        signs: false,
        history: false,
        functional: false,
    };
    /// The gradient at the slots.
    pub const GRADIENT: Self = Self {
        gradient: true,
        ..Self::NONE
    };
    /// The factors of the dense gradient.
    pub const FACTORS: Self = Self {
        factors: true,
        ..Self::NONE
    };
    /// Activity scores.
    pub const ACTIVITY: Self = Self {
        activity: true,
        ..Self::NONE
    };
    /// Ages.
    pub const AGES: Self = Self {
        ages: true,
        ..Self::NONE
    };
    /// Signs at birth.
    pub const SIGNS: Self = Self {
        signs: true,
        ..Self::NONE
    };
    /// The coordinates that have ever been active.
    pub const HISTORY: Self = Self {
        history: true,
        ..Self::NONE
    };
    /// Reachability.
    pub const FUNCTIONAL: Self = Self {
        functional: true,
        ..Self::NONE
    };

    /// One bit for each signal, in the order of the fields.
    pub(crate) fn bits(self) -> u64 {
        let all = [
            self.gradient,
            self.factors,
            self.activity,
            self.ages,
            self.signs,
            self.history,
            self.functional,
        ];
        let bits = all.into_iter().enumerate();
        bits.fold(0, |bits, (place, on)| bits | u64::from(on) << place)
    }

    /// The signals of [`bits`](Self::bits) in words.
    pub(crate) fn names(bits: u64) -> String {
        const NAMES: [&str; 7] = [
            "gradients",
            "the factors of the gradient",
            "activity",
            "ages",
            "signs",
            "the history of coordinates",
            "reachability",
        ];
        let named = NAMES.iter().enumerate();
        let named = named.filter(|(place, _)| bits >> place & 1 == 1);
        let named: Vec<&str> = named.map(|(_, name)| *name).collect();
        match &named[..] {
            [] => "values only".to_string(),
            named => named.join(" and "),
        }
    }

    /// Whether the layer's factors must be captured before the update.
    pub(crate) fn needs_factors(self) -> bool {
        self.gradient || self.factors
    }
}

impl BitOr for Signals {
    type Output = Self;

    fn bitor(self, other: Self) -> Self {
        Self {
            gradient: self.gradient || other.gradient,
            factors: self.factors || other.factors,
            activity: self.activity || other.activity,
            ages: self.ages || other.ages,
            signs: self.signs || other.signs,
            history: self.history || other.history,
            functional: self.functional || other.functional,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn joining_keeps_both() {
        let both = Signals::AGES | Signals::FACTORS;
        assert!(both.ages && both.factors && !both.gradient);
        assert!(both.needs_factors() && !Signals::AGES.needs_factors());
        assert_eq!(Signals::NONE, Signals::default());
        assert_eq!(both.bits(), 0b1010);
        assert_eq!(
            Signals::names(both.bits()),
            "the factors of the gradient and ages"
        );
        assert_eq!(Signals::names(0), "values only");
    }
}
