//! A pattern placed on a device.

use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use burn::backend::Dispatch;
use burn::module::ParamId;
use burn::tensor::{DType, Device, Int, Tensor, TensorData};

use crate::backend::has_device_kernels;
use crate::ops::{ColumnOrder, Index, IndexWidth, RowList};
use crate::pattern::Pattern;

/// A [`Pattern`] together with its 32-bit integer index tensors on one device.
///
/// The host pattern is the truth; the index tensors are derived from it when first needed and
/// shared by all clones: row offsets and columns by any product, the row of each slot where something
/// learns or a routine reads them, the column order only by a transposed product or the backward pass
/// to an input. Moving to another device uploads them again.
#[derive(Clone)]
pub struct DevicePattern {
    pub(super) id: ParamId,
    pattern: Arc<Pattern>,
    device: Device,
    index: Arc<DerivedIndex>,
}

/// The content of index tensors, before any device has it.
#[derive(Default)]
pub(crate) struct HostIndex {
    slots: Option<[Vec<i32>; 2]>,
    rows: Option<Vec<i32>>,
    columns: Option<[Vec<i32>; 3]>,
}

#[derive(Default)]
struct DerivedIndex {
    /// Until it is uploaded.
    host: Mutex<HostIndex>,
    /// Row offsets, columns.
    slots: OnceLock<[Tensor<1, Int>; 2]>,
    rows: OnceLock<Tensor<1, Int>>,
    columns: OnceLock<[Tensor<1, Int>; 3]>,
    /// A hash of the coordinates.
    hash: OnceLock<u64>,
}

/// What an operation needs of an index beside row offsets and columns.
#[derive(Debug, Clone, Copy)]
pub(crate) struct IndexParts {
    /// The row of each slot.
    pub rows: bool,
    /// The column order.
    pub columns: bool,
}

impl IndexParts {
    /// Of an operation that may be any routine.
    pub const ALL: Self = Self {
        rows: true,
        columns: true,
    };
}

impl DevicePattern {
    /// Places a pattern on a device. Nothing is uploaded yet.
    pub fn new(pattern: impl Into<Arc<Pattern>>, device: &Device) -> Self {
        Self {
            id: ParamId::new(),
            pattern: pattern.into(),
            device: device.clone().without_autodiff(),
            index: Arc::default(),
        }
    }

    /// The coordinates on the host.
    pub fn pattern(&self) -> &Arc<Pattern> {
        &self.pattern
    }

    /// The device of the index tensors.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The same pattern on `device`.
    pub fn to_device(&self, device: &Device) -> Self {
        if *device == self.device {
            return self.clone();
        }
        Self::new(self.pattern.clone(), device).with_id(self.id)
    }

    /// Bytes of the index tensors that are on the device now.
    pub fn index_bytes(&self) -> usize {
        let index = &self.index;
        let slots = index.slots.get().into_iter().flatten();
        let columns = index.columns.get().into_iter().flatten();
        let tensors = slots.chain(index.rows.get()).chain(columns);
        tensors.map(|t| t.dims()[0] * size_of::<i32>()).sum()
    }

    /// Bytes of the index tensors of a pattern once a layer on `device` has trained, the column
    /// order of the backward pass included: what [`index_bytes`](Self::index_bytes) says then.
    pub fn bytes_in_training(pattern: &Pattern, device: &Device) -> usize {
        let [rows, cols] = pattern.shape();
        let device = device.clone().without_autodiff();
        let padded = pattern.nnz() + padding(&device);
        let coordinates = width(pattern, &device).words(padded);
        let by_row = rows + 1 + 2 * coordinates;
        let by_column = cols + 1 + coordinates + padded;
        size_of::<i32>() * (by_row + by_column)
    }

    /// What `hash` makes of the coordinates; it is asked once for all clones, and is always the same one.
    pub(crate) fn hash(&self, hash: impl FnOnce(&Pattern) -> u64) -> u64 {
        *self.index.hash.get_or_init(|| hash(&self.pattern))
    }

    pub(super) fn with_id(mut self, id: ParamId) -> Self {
        self.id = id;
        self
    }

    /// The index tensors as an operation takes them.
    pub(crate) fn index(&self, wanted: IndexParts) -> Index<Dispatch> {
        let [row_offsets, cols] = self.slots().clone().map(Tensor::into_dispatch);
        Index {
            shape: self.pattern.shape(),
            nnz: self.pattern.nnz(),
            width: self.width(),
            row_offsets,
            cols,
            rows: match wanted.rows {
                false => RowList::Absent,
                true => RowList::Present {
                    rows: self.rows().clone().into_dispatch(),
                },
            },
            columns: match wanted.columns {
                false => ColumnOrder::Absent,
                true => {
                    let [offsets, rows, slots] = self.columns().clone().map(Tensor::into_dispatch);
                    ColumnOrder::Present {
                        offsets,
                        rows,
                        slots,
                    }
                }
            },
        }
    }

    /// Row of each slot, `[nnz]`.
    pub(crate) fn row_of_slots(&self) -> Tensor<1, Int> {
        let rows = self.pattern.expand_rows();
        upload(
            rows.into_iter().map(|row| row as i32).collect(),
            &self.device,
        )
    }

    /// Column of each slot, `[nnz]`.
    pub(crate) fn col_of_slots(&self) -> Tensor<1, Int> {
        let cols = self.pattern.cols();
        upload(cols.iter().map(|&col| col as i32).collect(), &self.device)
    }

    fn width(&self) -> IndexWidth {
        width(&self.pattern, &self.device)
    }

    fn padding(&self) -> usize {
        padding(&self.device)
    }

    /// Of another pattern of the same shape, what of this one is on the device.
    pub(crate) fn prepare(&self, pattern: &Pattern) -> HostIndex {
        let index = &self.index;
        HostIndex {
            slots: index.slots.get().map(|_| self.slot_words(pattern)),
            rows: index.rows.get().map(|_| self.row_words(pattern)),
            columns: index.columns.get().map(|_| self.column_words(pattern)),
        }
    }

    /// With what is already there of the index tensors.
    pub(super) fn with_index(mut self, host: HostIndex) -> Self {
        self.index = Arc::new(DerivedIndex {
            host: Mutex::new(host),
            ..DerivedIndex::default()
        });
        self
    }

    fn slots(&self) -> &[Tensor<1, Int>; 2] {
        self.index.slots.get_or_init(|| {
            let words = self.index.host().slots.take();
            let words = words.unwrap_or_else(|| self.slot_words(&self.pattern));
            words.map(|words| upload(words, &self.device))
        })
    }

    fn rows(&self) -> &Tensor<1, Int> {
        self.index.rows.get_or_init(|| {
            let words = self.index.host().rows.take();
            let words = words.unwrap_or_else(|| self.row_words(&self.pattern));
            upload(words, &self.device)
        })
    }

    fn columns(&self) -> &[Tensor<1, Int>; 3] {
        self.index.columns.get_or_init(|| {
            let words = self.index.host().columns.take();
            let words = words.unwrap_or_else(|| self.column_words(&self.pattern));
            words.map(|words| upload(words, &self.device))
        })
    }

    fn slot_words(&self, pattern: &Pattern) -> [Vec<i32>; 2] {
        [offset_words(pattern), self.coordinate_words(pattern.cols())]
    }

    fn row_words(&self, pattern: &Pattern) -> Vec<i32> {
        self.coordinate_words(&pattern.expand_rows())
    }

    fn column_words(&self, pattern: &Pattern) -> [Vec<i32>; 3] {
        let order = pattern.transposed();
        let mut slots: Vec<i32> = order.slots.into_iter().map(u32::cast_signed).collect();
        slots.resize(slots.len() + self.padding(), 0);
        [
            offset_words(&order.pattern),
            self.coordinate_words(order.pattern.cols()),
            slots,
        ]
    }

    fn coordinate_words(&self, coordinates: &[u32]) -> Vec<i32> {
        let length = self.width().words(coordinates.len() + self.padding());
        let mut words = Vec::with_capacity(length);
        match self.width() {
            IndexWidth::Bits32 => words.extend(coordinates.iter().map(|word| word.cast_signed())),
            IndexWidth::Bits16 => words.extend(coordinates.chunks(2).map(|pair| {
                let high = pair.get(1).map_or(0, |index| index << 16);
                (pair[0] | high).cast_signed()
            })),
        }
        words.resize(length, 0);
        words
    }
}

impl DerivedIndex {
    fn host(&self) -> MutexGuard<'_, HostIndex> {
        self.host.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn offset_words(pattern: &Pattern) -> Vec<i32> {
    let offsets = pattern.row_offsets().iter();
    offsets.map(|&offset| offset as i32).collect()
}

/// Kernels on a device gain from halved coordinates; the host's are made for whole ones.
fn width(pattern: &Pattern, device: &Device) -> IndexWidth {
    let [rows, cols] = pattern.shape();
    match rows.max(cols) <= 1 << 16 && has_device_kernels(device) {
        true => IndexWidth::Bits16,
        false => IndexWidth::Bits32,
    }
}

fn padding(device: &Device) -> usize {
    match has_device_kernels(device) {
        true => IndexWidth::PADDING,
        false => 0,
    }
}

/// A host list as a 32-bit integer tensor, whatever the device's default integer type is.
pub(crate) fn upload(values: Vec<i32>, device: &Device) -> Tensor<1, Int> {
    let length = values.len();
    Tensor::from_data(TensorData::new(values, [length]), (device, DType::I32))
}

impl core::fmt::Debug for DevicePattern {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.debug_struct("DevicePattern")
            .field("pattern", &self.pattern)
            .field("device", &self.device)
            .finish()
    }
}
