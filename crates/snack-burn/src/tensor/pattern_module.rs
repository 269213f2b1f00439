//! A pattern as part of a Burn module: visited, mapped and recorded as one integer parameter.
//!
//! The parameter holds `[m, k, row offsets (m + 1), columns (nnz)]` in 32-bit integers. One
//! parameter rather than one per list, so that a record carries a pattern whole or not at all. It
//! is lazy: traversals that do not read it, such as an optimizer step, cost nothing.

use std::cell::RefCell;
use std::sync::Arc;

use burn::module::{
    Content, Devices, Module, ModuleDisplay, ModuleDisplayDefault, ModuleMapper, ModuleVisitor,
    Param,
};
use burn::tensor::{Device, Int, Shape, Tensor, TensorData};

use super::DevicePattern;
use super::device_pattern::{HostIndex, upload};
use crate::error::SparseError;
use crate::pattern::Pattern;

thread_local! {
    /// The pattern that a traversal of this thread is at, and what takes its place.
    ///
    /// A visitor sees the integer parameter alone. Those of this crate need the pattern itself, and
    /// would otherwise upload it to read it back.
    static VISITED: RefCell<Option<DevicePattern>> = const { RefCell::new(None) };
    static REPLACEMENT: RefCell<Option<(Arc<Pattern>, HostIndex)>> = const { RefCell::new(None) };
}

/// The pattern whose parameter is being visited, for a visitor's `visit_int`.
pub(crate) fn visited_pattern() -> Option<DevicePattern> {
    VISITED.with_borrow(Clone::clone)
}

/// Gives the pattern whose parameter is being mapped other coordinates, for a mapper's `map_int`
/// that returns the parameter as it is.
pub(crate) fn replace_pattern(pattern: Arc<Pattern>, index: HostIndex) {
    REPLACEMENT.set(Some((pattern, index)));
}

/// The recorded form of a pattern.
fn encode(pattern: &Pattern) -> Vec<i32> {
    let [rows, cols] = pattern.shape();
    let mut words = Vec::with_capacity(encoded_len(pattern));
    words.extend([rows as i32, cols as i32]);
    words.extend(pattern.row_offsets().iter().map(|&offset| offset as i32));
    words.extend(pattern.cols().iter().map(|&col| col as i32));
    words
}

fn encoded_len(pattern: &Pattern) -> usize {
    3 + pattern.shape()[0] + pattern.nnz()
}

/// The pattern of a recorded form.
///
/// # Errors
///
/// Returns the first broken invariant.
pub(crate) fn decode(data: TensorData) -> Result<Pattern, SparseError> {
    let words: Vec<i64> = data.iter::<i64>().collect();
    let too_short = |expected| SparseError::LengthMismatch {
        what: "recorded pattern",
        expected,
        found: words.len(),
    };
    let [rows, cols, lists @ ..] = words.as_slice() else {
        return Err(too_short(3));
    };
    let shape = [
        natural("dimension", 0, *rows, i32::MAX as usize)?,
        natural("dimension", 1, *cols, i32::MAX as usize)?,
    ];
    if lists.len() < shape[0] + 1 {
        return Err(too_short(3 + shape[0]));
    }
    let (offsets, cols) = lists.split_at(shape[0] + 1);
    let offsets = offsets
        .iter()
        .enumerate()
        .map(|(position, &offset)| natural("row offset", position, offset, cols.len() + 1))
        .collect::<Result<_, _>>()?;
    let cols = cols
        .iter()
        .enumerate()
        .map(|(position, &col)| natural("column", position, col, shape[1]).map(|col| col as u32))
        .collect::<Result<_, _>>()?;
    Pattern::from_offsets(shape, offsets, cols)
}

fn natural(
    axis: &'static str,
    position: usize,
    index: i64,
    size: usize,
) -> Result<usize, SparseError> {
    usize::try_from(index).map_err(|_| SparseError::NegativeIndex {
        axis,
        position,
        index,
        size,
    })
}

impl DevicePattern {
    fn as_param(&self) -> Param<Tensor<1, Int>> {
        let pattern = self.pattern().clone();
        Param::uninitialized(
            self.id,
            move |device, _| upload(encode(&pattern), device),
            self.device().clone(),
            false,
            Shape::new([encoded_len(self.pattern())]),
        )
    }
}

impl Module for DevicePattern {
    fn collect_devices(&self, mut devices: Devices) -> Devices {
        if !devices.contains(self.device()) {
            devices.push(self.device().clone());
        }
        devices
    }

    fn fork(self, device: &Device) -> Self {
        DevicePattern::to_device(&self, device)
    }

    fn to_device(self, device: &Device) -> Self {
        DevicePattern::to_device(&self, device)
    }

    fn train(self) -> Self {
        self
    }

    fn valid(&self) -> Self {
        self.clone()
    }

    fn materialize(self) -> Self {
        self
    }

    fn visit<Visitor: ModuleVisitor>(&self, visitor: &mut Visitor) {
        let outer = VISITED.replace(Some(self.clone()));
        visitor.visit_int(&self.as_param());
        VISITED.set(outer);
    }

    fn map<Mapper: ModuleMapper>(self, mapper: &mut Mapper) -> Self {
        REPLACEMENT.set(None);
        let param = mapper.map_int(self.as_param());
        if let Some((pattern, index)) = REPLACEMENT.take() {
            let new = DevicePattern::new(pattern, self.device());
            return new.with_index(index).with_id(self.id);
        }
        // Still lazy: the mapper neither read nor replaced it.
        if !param.is_initialized() {
            return self;
        }
        let pattern = decode(param.val().into_data())
            .unwrap_or_else(|error| panic!("a loaded sparsity pattern is invalid: {error}"));
        let [rows, cols] = self.pattern().shape();
        assert_eq!(
            pattern.shape(),
            [rows, cols],
            "a loaded sparsity pattern has another shape than the layer [d_output, d_input]"
        );
        match pattern == **self.pattern() {
            true => self.with_id(param.id),
            false => DevicePattern::new(pattern, self.device()).with_id(param.id),
        }
    }
}

impl ModuleDisplayDefault for DevicePattern {
    fn content(&self, content: Content) -> Option<Content> {
        content
            .add_formatted(&self.pattern().to_string())
            .optional()
    }
}

impl ModuleDisplay for DevicePattern {}
