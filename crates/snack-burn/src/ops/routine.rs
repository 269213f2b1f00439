//! The routines that can compute each operation, and how one is chosen.

use core::fmt;
use core::str::FromStr;

use serde::{Deserialize, Serialize};

/// The ways to compute `Y = X W^T` and its transposed product `X = Y W`.
///
/// Which of them a device can run depends on the back end: see the table in `docs/kernels.md`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SpmmRoutine {
    /// The fastest deterministic routine that the device can run: measured once for problems of
    /// about the same size and remembered on disk, where the feature `autotune` is on and the
    /// problem is large enough to matter; otherwise as `Estimated`. Another device, or measuring
    /// anew, may choose another one, whose bits differ.
    #[default]
    Auto,
    /// The deterministic routine that a rule expects to be fastest, without measuring. The same
    /// choice on every run and every device of a kind.
    Estimated,
    /// Gather, multiply and scatter-add composed of Burn tensor operations. Runs on any back end
    /// and allocates `batch x nnz` elements.
    Composed,
    /// Rows of the matrix against vectors of batch columns on the host, with SIMD and threads.
    HostRows,
    /// SNACK-COO (SNACK, section 3.2): a grid of `ceil(nnz / 256)` by `batch` cubes, one unit and
    /// one atomic addition per product. Not deterministic: the order of the additions varies.
    CooAtomic,
    /// A cube owns a range of rows and stages the dense operand in shared memory, up to four
    /// samples at a time: for small batches.
    RowBlock,
    /// Some rows at a time as a dense panel of bounded size, multiplied by the back end's dense
    /// product, whose precision it has: for large batches in half precision, or with
    /// [`Routines::reduced_precision`].
    Panel,
    /// Some lanes of a plane per row, which share its non-zeros: for small problems and short rows.
    RowPlane,
    /// The transposed product in the order of the rows: a cube adds row after row to sums in shared
    /// memory, and a second kernel adds the sums of all cubes. For small batches.
    RowScatter,
    /// As [`RowPlane`](Self::RowPlane) with the dense operand in shared memory, up to four samples at a time:
    /// for small batches.
    RowStaged,
    /// Tiles of the dense operand in shared memory, turned feature-major; a few lanes per row walk its
    /// entries in a tile: for batches of eight and more on devices with large shared memory.
    RowTile,
    /// One unit per row and tile of the batch, for devices without plane operations.
    RowUnit,
    /// The dense operand is turned feature-major; a team of units per row, whose lanes multiply
    /// vectors of four samples: for batches of eight and more.
    RowVector,
}

/// The ways to compute the sampled product `d[s] = sum_b G[b, row(s)] X[b, col(s)]`.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SddmmRoutine {
    /// The fastest routine that the device can run, as
    /// [`SpmmRoutine::Auto`](SpmmRoutine::Auto).
    #[default]
    Auto,
    /// The routine that a rule expects to be fastest, without measuring.
    Estimated,
    /// Two gathers, a product and a sum composed of Burn tensor operations. Runs on any back end
    /// and allocates `batch x nnz` elements.
    Composed,
    /// Dot products of feature-major vectors on the host, with SIMD and threads.
    HostRows,
    /// The paper's sparse outer product (SNACK, section 3.4): one unit per non-zero walks the
    /// batch.
    OuterProduct,
    /// A cube owns a range of rows and stages `X` in shared memory, for batches of up to four.
    RowBlock,
    /// The dense gradient of some rows at a time, by the back end's dense product, whose precision
    /// it has, of which the non-zeros are kept: for large batches in half precision, or with
    /// [`Routines::reduced_precision`].
    Panel,
    /// Tiles of `X` in shared memory, turned feature-major; a plane per row walks its entries in a
    /// tile: for batches of eight and more on devices with large shared memory.
    RowTile,
    /// Both dense operands are turned feature-major; a team of units per row, whose lanes multiply
    /// vectors of four samples: for batches of eight and more.
    RowVector,
}

/// In which order the elements of a `[batch, features]` operand lie in memory. It changes how fast a
/// product is, never what it is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layout {
    /// The features of a sample are neighbours, as in a contiguous tensor.
    #[default]
    BatchMajor,
    /// The samples of a feature are neighbours, as in a contiguous `[features, batch]` tensor with its axes
    /// swapped.
    FeatureMajor,
}

/// The routine of each operation of a layer or tensor; [`Auto`](SpmmRoutine::Auto) by default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Routines {
    /// Routine of the product.
    pub spmm: SpmmRoutine,
    /// Routine of the transposed product, which is the gradient of the input; that of the product
    /// if absent.
    pub spmm_transposed: Option<SpmmRoutine>,
    /// Routine of the sampled product, which is the gradient of the values.
    pub sddmm: SddmmRoutine,
    /// Bytes of device memory that the panels of the `panel` routine, the sums of `row_tile` and those
    /// of the parts of a batch in a sampled product may take, 40 MB by default.
    pub panel_bytes: usize,
    /// Lets the automatic choice use `panel` in single precision too, as it does in half precision. The
    /// result then has the precision of the back end's dense product, which on tensor cores may be
    /// that of tf32, as in Burn's dense layers. `false` by default: single precision is kept.
    pub reduced_precision: bool,
    /// The wanted layout of the output of the product. Kernels for large batches compute feature-major and
    /// turn operands that are not. Two layers with nothing but elementwise operations between them save
    /// that if the output of the first and the [`input_layout`](Self::input_layout) of the second are
    /// feature-major. A wish: back ends and routines for small batches do not heed it.
    pub output_layout: Layout,
    /// The wanted layout of the gradient of the input. The input itself may have any layout.
    pub input_layout: Layout,
}

impl Routines {
    /// The routine of the transposed product.
    pub fn transposed(&self) -> SpmmRoutine {
        self.spmm_transposed.unwrap_or(self.spmm)
    }
}

impl Default for Routines {
    fn default() -> Self {
        Self {
            spmm: SpmmRoutine::default(),
            spmm_transposed: None,
            sddmm: SddmmRoutine::default(),
            panel_bytes: 40_000_000,
            reduced_precision: false,
            output_layout: Layout::default(),
            input_layout: Layout::default(),
        }
    }
}

/// A routine name that does not exist.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown routine `{name}`, expected one of: {expected}")]
pub struct UnknownRoutine {
    /// The name that was given.
    pub name: String,
    /// The names that exist.
    pub expected: String,
}

macro_rules! named {
    ($routine:ident { $($variant:ident => $name:literal),+ $(,)? }) => {
        impl $routine {
            /// Every routine, the automatic choice first.
            pub const ALL: &'static [Self] = &[$(Self::$variant),+];

            /// The name by which the routine is chosen on a command line.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$variant => $name),+
                }
            }
        }

        impl fmt::Display for $routine {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(self.name())
            }
        }

        impl FromStr for $routine {
            type Err = UnknownRoutine;

            fn from_str(name: &str) -> Result<Self, Self::Err> {
                Self::ALL.iter().copied().find(|routine| routine.name() == name).ok_or_else(|| {
                    UnknownRoutine {
                        name: name.to_string(),
                        expected: Self::ALL.iter().map(|r| r.name()).collect::<Vec<_>>().join(", "),
                    }
                })
            }
        }
    };
}

named!(SpmmRoutine {
    Auto => "auto",
    Estimated => "estimated",
    Composed => "composed",
    HostRows => "host_rows",
    CooAtomic => "coo_atomic",
    Panel => "panel",
    RowBlock => "row_block",
    RowPlane => "row_plane",
    RowScatter => "row_scatter",
    RowStaged => "row_staged",
    RowTile => "row_tile",
    RowUnit => "row_unit",
    RowVector => "row_vector",
});

named!(SddmmRoutine {
    Auto => "auto",
    Estimated => "estimated",
    Composed => "composed",
    HostRows => "host_rows",
    OuterProduct => "outer_product",
    Panel => "panel",
    RowBlock => "row_block",
    RowTile => "row_tile",
    RowVector => "row_vector",
});

/// Why a routine cannot run a given problem on a given device.
///
/// A forced routine panics with this text. The automatic choice asks the device first and takes a
/// routine that it can run.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RoutineError {
    /// The back end has no such routine.
    #[error("routine `{routine}` does not exist on this back end, which has: {available}")]
    NotOnBackend {
        /// Name of the routine.
        routine: &'static str,
        /// Names of the routines of this back end.
        available: &'static str,
    },
    /// The device lacks an instruction that the routine is made of.
    #[error("routine `{routine}` needs {needed}, which this device does not have")]
    MissingFeature {
        /// Name of the routine.
        routine: &'static str,
        /// The instruction.
        needed: String,
    },
    /// The routine computes only the transposed product.
    #[error("routine `{routine}` computes only the transposed product")]
    TransposedOnly {
        /// Name of the routine.
        routine: &'static str,
    },
    /// The device does not compute in the type at all.
    #[error("sparse products in {dtype} need arithmetic that device `{device}` does not have")]
    UnsupportedType {
        /// Name of the device.
        device: String,
        /// Name of the type.
        dtype: &'static str,
    },
    /// The routine is made for smaller problems.
    #[error(
        "routine `{routine}` takes a {what} of at most {allowed} on this device, got {requested}"
    )]
    ProblemTooLarge {
        /// Name of the routine.
        routine: &'static str,
        /// What is too large.
        what: &'static str,
        /// Its size in the problem.
        requested: usize,
        /// Its largest size.
        allowed: usize,
    },
    /// The launch grid exceeds what the device accepts.
    #[error(
        "routine `{routine}` would launch a grid of {requested:?} cubes, this device allows \
         {allowed:?}"
    )]
    LaunchTooLarge {
        /// Name of the routine.
        routine: &'static str,
        /// Cubes per axis that the problem needs.
        requested: [u64; 3],
        /// Cubes per axis that the device allows.
        allowed: [u64; 3],
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_round_trip() {
        for &routine in SpmmRoutine::ALL {
            assert_eq!(routine.name().parse(), Ok(routine));
        }
        for &routine in SddmmRoutine::ALL {
            assert_eq!(routine.name().parse(), Ok(routine));
        }
    }

    #[test]
    fn fields_of_routines_are_optional_and_known() {
        let routines: Routines = serde_json::from_str(r#"{"spmm":"row_vector"}"#).unwrap();
        assert_eq!(routines.transposed(), SpmmRoutine::RowVector);
        assert_eq!(routines.panel_bytes, Routines::default().panel_bytes);
        assert!(serde_json::from_str::<Routines>(r#"{"panel_byte":3}"#).is_err());
    }

    #[test]
    fn unknown_name_lists_the_known_ones() {
        let error = "fast".parse::<SpmmRoutine>().unwrap_err().to_string();
        assert_eq!(
            error,
            "unknown routine `fast`, expected one of: auto, estimated, composed, host_rows, coo_atomic, panel, \
             row_block, row_plane, row_scatter, row_staged, row_tile, row_unit, row_vector"
        );
    }
}
