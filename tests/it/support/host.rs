//! Numbers from and to tensors.

use std::any::Any;

use burn::tensor::{Device, Tensor, TensorData};
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// `count` numbers in `[-0.25, 1)`: of both signs, yet sums of their products rarely cancel, so
/// that a relative error means something also where a matrix has one element.
pub fn uniform(count: usize, rng: &mut ChaCha8Rng) -> Vec<f32> {
    (0..count).map(|_| rng.random_range(-0.25..1.0)).collect()
}

pub fn widen(values: &[f32]) -> Vec<f64> {
    values.iter().map(|&value| f64::from(value)).collect()
}

/// The elements of a tensor, widened.
pub fn floats<const D: usize>(tensor: &Tensor<D>) -> Vec<f64> {
    tensor.clone().into_data().iter::<f64>().collect()
}

pub fn tensor1(values: &[f32], device: &Device) -> Tensor<1> {
    Tensor::from_data(TensorData::new(values.to_vec(), [values.len()]), device)
}

/// A `[rows, cols]` tensor of row-major numbers.
pub fn tensor2(values: &[f32], [rows, cols]: [usize; 2], device: &Device) -> Tensor<2> {
    Tensor::from_data(TensorData::new(values.to_vec(), [rows, cols]), device)
}

/// Leaves NaN in the memory that the device is likely to give to the next tensor of this size, so
/// that an element which a kernel does not write shows.
pub fn poison(size: usize, device: &Device) {
    if size > 0 {
        let nan = Tensor::<1>::full([size], f32::NAN, device);
        device.sync().expect("the device fills a tensor");
        drop(nan);
    }
}

/// The text of a caught panic.
pub fn panic_text(payload: Box<dyn Any + Send>) -> String {
    match payload.downcast::<String>() {
        Ok(text) => *text,
        Err(payload) => match payload.downcast::<&'static str>() {
            Ok(text) => text.to_string(),
            Err(_) => "a panic without text".to_string(),
        },
    }
}
