//! The operations composed of Burn tensor operations: right on any back end, fast on none.

use burn::backend::tensor::{FloatTensor, IntTensor};
use burn::backend::{Backend, TensorMetadata};
use burn::tensor::{FloatDType, IndexingUpdateOp, Shape, Slice, TensorData, read_sync};

use super::select::{Mask, Selected, select_panel, select_rows};
use super::{GradientPanel, Index, IndexWidth};

/// `Y = X W^T` by gathering the columns of `x` and adding the products to their rows.
pub fn spmm<B: Backend>(
    values: FloatTensor<B>,
    index: &Index<B>,
    x: FloatTensor<B>,
) -> FloatTensor<B> {
    gather_scatter::<B>(
        values,
        coordinates::<B>(&index.cols, index),
        coordinates::<B>(index.rows.expect(), index),
        x,
        index.shape[0],
    )
}

/// `X = Y W` by gathering the columns of `y` and adding the products to their columns of `W`.
pub fn spmm_transposed<B: Backend>(
    values: FloatTensor<B>,
    index: &Index<B>,
    y: FloatTensor<B>,
) -> FloatTensor<B> {
    gather_scatter::<B>(
        values,
        coordinates::<B>(index.rows.expect(), index),
        coordinates::<B>(&index.cols, index),
        y,
        index.shape[1],
    )
}

/// `d[s] = sum_b Y[b, row(s)] X[b, col(s)]` by two gathers and a reduction over the batch.
pub fn sddmm<B: Backend>(y: FloatTensor<B>, x: FloatTensor<B>, index: &Index<B>) -> FloatTensor<B> {
    let nnz = index.nnz;
    if nnz == 0 || x.shape()[0] == 0 {
        return B::float_zeros(Shape::new([nnz]), &x.device(), x.dtype().into());
    }
    let y = B::float_select(y, 1, coordinates::<B>(index.rows.expect(), index));
    let x = B::float_select(x, 1, coordinates::<B>(&index.cols, index));
    B::float_reshape(B::float_sum_dim(B::float_mul(y, x), 0), Shape::new([nnz]))
}

/// A panel by the dense product of the back end, whose precision it has, and [`search`].
pub fn top_gradients<B: Backend>(
    g: FloatTensor<B>,
    x: FloatTensor<B>,
    mask: IntTensor<B>,
    panel: &GradientPanel,
    count: usize,
    floor: f32,
) -> (IntTensor<B>, FloatTensor<B>) {
    search::<B>(gradients::<B>(g, x, panel), mask, panel, count, floor)
}

/// As [`top_gradients`], row by row.
pub fn top_gradients_per_row<B: Backend>(
    g: FloatTensor<B>,
    x: FloatTensor<B>,
    mask: IntTensor<B>,
    starts: IntTensor<B>,
    panel: &GradientPanel,
) -> (IntTensor<B>, FloatTensor<B>) {
    search_rows::<B>(gradients::<B>(g, x, panel), mask, starts, panel)
}

/// The largest of the gradients of a panel, `[rows, cols]` in `f32`, on the host.
pub fn search<B: Backend>(
    gradients: FloatTensor<B>,
    mask: IntTensor<B>,
    panel: &GradientPanel,
    count: usize,
    floor: f32,
) -> (IntTensor<B>, FloatTensor<B>) {
    let device = gradients.device();
    let (gradients, mask) = (numbers::<B>(gradients), words::<B>(mask));
    let mask = Mask {
        bits: &mask,
        stride: panel.mask_stride(),
    };
    let cols = panel.cols.len();
    place::<B>(select_panel(&gradients, cols, mask, count, floor), &device)
}

/// As [`search`], row by row.
pub fn search_rows<B: Backend>(
    gradients: FloatTensor<B>,
    mask: IntTensor<B>,
    starts: IntTensor<B>,
    panel: &GradientPanel,
) -> (IntTensor<B>, FloatTensor<B>) {
    let device = gradients.device();
    let (gradients, mask) = (numbers::<B>(gradients), words::<B>(mask));
    let mask = Mask {
        bits: &mask,
        stride: panel.mask_stride(),
    };
    let starts = words::<B>(starts);
    let cols = panel.cols.len();
    place::<B>(select_rows(&gradients, cols, mask, &starts), &device)
}

fn gradients<B: Backend>(
    g: FloatTensor<B>,
    x: FloatTensor<B>,
    panel: &GradientPanel,
) -> FloatTensor<B> {
    let part = |tensor: FloatTensor<B>, range: &core::ops::Range<usize>| {
        let ranges = [
            Slice::from(0..tensor.shape()[0]),
            Slice::from(range.clone()),
        ];
        B::float_cast(B::float_slice(tensor, &ranges), FloatDType::F32)
    };
    let g = B::float_swap_dims(part(g, &panel.rows), 0, 1);
    B::float_matmul(g, part(x, &panel.cols))
}

fn numbers<B: Backend>(tensor: FloatTensor<B>) -> Vec<f32> {
    read(B::float_into_data(tensor)).iter().collect()
}

fn words<B: Backend>(tensor: IntTensor<B>) -> Vec<i32> {
    read(B::int_into_data(tensor)).iter().collect()
}

fn read<E: core::fmt::Debug>(data: impl Future<Output = Result<TensorData, E>>) -> TensorData {
    read_sync(data).expect("the device can be read")
}

fn place<B: Backend>(selected: Selected, device: &B::Device) -> (IntTensor<B>, FloatTensor<B>) {
    let count = selected.positions.len();
    (
        B::int_from_data(TensorData::new(selected.positions, [count]), device),
        B::float_from_data(TensorData::new(selected.gradients, [count]), device),
    )
}

fn gather_scatter<B: Backend>(
    values: FloatTensor<B>,
    from: IntTensor<B>,
    to: IntTensor<B>,
    x: FloatTensor<B>,
    width: usize,
) -> FloatTensor<B> {
    let (batch, nnz) = (x.shape()[0], values.shape()[0]);
    let output = B::float_zeros(Shape::new([batch, width]), &x.device(), x.dtype().into());
    if batch == 0 || nnz == 0 {
        return output;
    }
    let values = B::float_reshape(values, Shape::new([1, nnz]));
    let products = B::float_mul(B::float_select(x, 1, from), values);
    B::float_select_assign(output, 1, to, products, IndexingUpdateOp::Add)
}

/// One coordinate per element, `[nnz]`, whatever the width of the index.
fn coordinates<B: Backend>(words: &IntTensor<B>, index: &Index<B>) -> IntTensor<B> {
    let all = match index.width {
        IndexWidth::Bits32 => words.clone(),
        IndexWidth::Bits16 => {
            let half = |shift: i64| {
                let shifted = B::bitwise_right_shift_scalar(words.clone(), shift.into());
                let half = B::bitwise_and_scalar(shifted, 0xffff_i64.into());
                B::int_reshape(half, Shape::new([words.shape()[0], 1]))
            };
            let halves = B::int_cat(vec![half(0), half(16)], 1);
            B::int_reshape(halves, Shape::new([2 * words.shape()[0]]))
        }
    };
    match all.shape()[0] == index.nnz {
        true => all,
        false => B::int_slice(all, &[Slice::from(0..index.nnz)]),
    }
}

#[cfg(all(test, feature = "flex"))]
mod tests {
    use burn::backend::Flex;
    use burn::backend::ops::{FloatTensorOps, IntTensorOps};
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    use super::*;
    use crate::ops::SparseOps;

    /// Integers, so that the order of the sums does not matter.
    #[test]
    fn the_composed_search_finds_what_the_kernels_find() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let (batch, m, k) = (7, 20, 90);
        let device = Default::default();
        let mut factor = |width: usize| {
            let values: Vec<f32> = (0..batch * width)
                .map(|_| rng.random_range(-3..=3) as f32)
                .collect();
            Flex::float_from_data(TensorData::new(values, [batch, width]), &device)
        };
        let (g, x) = (factor(m), factor(k));
        let panel = GradientPanel {
            rows: 3..17,
            cols: 5..90,
        };
        let ints = |values: Vec<i32>| {
            let length = values.len();
            Flex::int_from_data(TensorData::new(values, [length]), &device)
        };
        let mask = ints((0..14 * 3).map(|_| rng.random()).collect());
        let starts = ints((0..=14).map(|row| row * 4).collect());
        let sorted = |(positions, gradients)| {
            let positions = words::<Flex>(positions);
            let gradients = numbers::<Flex>(gradients);
            let mut found: Vec<_> = positions
                .into_iter()
                .zip(gradients.into_iter().map(f32::to_bits))
                .collect();
            found.sort_unstable();
            found
        };
        for (count, floor) in [(1, 0.0), (100, 0.0), (500, 9.0)] {
            let found =
                top_gradients::<Flex>(g.clone(), x.clone(), mask.clone(), &panel, count, floor);
            let expected = Flex::top_gradients(
                g.clone(),
                x.clone(),
                mask.clone(),
                panel.clone(),
                count,
                floor,
            );
            let found = sorted(found);
            assert_eq!(found.len(), count);
            assert_eq!(found, sorted(expected));
            assert_eq!(found.iter().any(|&(position, _)| position < 0), floor > 0.0);
        }
        let found = top_gradients_per_row::<Flex>(
            g.clone(),
            x.clone(),
            mask.clone(),
            starts.clone(),
            &panel,
        );
        let expected = Flex::top_gradients_per_row(g, x, mask, starts, panel, 56);
        assert_eq!(sorted(found), sorted(expected));
    }
}
