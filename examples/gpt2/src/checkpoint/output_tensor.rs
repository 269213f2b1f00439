use super::{MlpMatrix, matrix::read};
use crate::MlpLinear;
use burn::{module::Param, tensor::Tensor};
use clap::ValueEnum;
use half::{bf16, f16};
use safetensors::{Dtype, View};
use std::{borrow::Cow, cell::Cell, rc::Rc};

/// The number type of weights in a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, ValueEnum)]
pub enum WeightDtype {
    /// 32 bits; what the model computes with.
    #[default]
    F32,
    /// 16 bits with the range of f32.
    Bf16,
    /// IEEE 16 bits, at most 65504.
    F16,
}

impl core::fmt::Display for WeightDtype {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(self.name())
    }
}

impl WeightDtype {
    /// Bytes of one number.
    pub fn bytes(self) -> usize {
        match self {
            Self::F32 => 4,
            Self::Bf16 | Self::F16 => 2,
        }
    }

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::F32 => "f32",
            Self::Bf16 => "bf16",
            Self::F16 => "f16",
        }
    }

    pub(crate) fn torch_name(self) -> &'static str {
        match self {
            Self::F32 => "float32",
            Self::Bf16 => "bfloat16",
            Self::F16 => "float16",
        }
    }

    fn dtype(self) -> Dtype {
        match self {
            Self::F32 => Dtype::F32,
            Self::Bf16 => Dtype::BF16,
            Self::F16 => Dtype::F16,
        }
    }

    /// The bytes of the rounded values, and how many finite ones became infinite.
    fn encode(self, values: &[f32]) -> (Vec<u8>, usize) {
        let mut bytes = Vec::with_capacity(values.len() * self.bytes());
        let mut overflows = 0;
        for &value in values {
            let became_infinite = match self {
                Self::F32 => {
                    bytes.extend(value.to_le_bytes());
                    false
                }
                Self::Bf16 => {
                    let half = bf16::from_f32(value);
                    bytes.extend(half.to_le_bytes());
                    half.is_infinite()
                }
                Self::F16 => {
                    let half = f16::from_f32(value);
                    bytes.extend(half.to_le_bytes());
                    half.is_infinite()
                }
            };
            overflows += usize::from(became_infinite && value.is_finite());
        }
        (bytes, overflows)
    }
}

/// A tensor on its way into a file; it leaves the model when it is written.
pub(crate) struct OutputTensor<'a> {
    dtype: Dtype,
    shape: Vec<usize>,
    content: Content<'a>,
    /// How many finite values became infinite, once written.
    overflows: Rc<Cell<usize>>,
}

enum Content<'a> {
    Vector(&'a Param<Tensor<1>>, WeightDtype),
    Matrix(&'a Param<Tensor<2>>, WeightDtype),
    /// The dense form of a layer.
    Layer(&'a MlpLinear, WeightDtype),
    Values(Vec<f32>, WeightDtype),
    Integers(Vec<i32>),
}

impl<'a> OutputTensor<'a> {
    pub fn vector(param: &'a Param<Tensor<1>>, dtype: WeightDtype) -> Self {
        let shape = param.dims().to_vec();
        Self::new(dtype.dtype(), shape, Content::Vector(param, dtype))
    }

    pub fn matrix(param: &'a Param<Tensor<2>>, dtype: WeightDtype) -> Self {
        let shape = param.dims().to_vec();
        Self::new(dtype.dtype(), shape, Content::Matrix(param, dtype))
    }

    /// The weight of a layer, `[d_input, d_output]`, with zeros where none exists.
    pub fn layer(layer: &'a MlpLinear, dtype: WeightDtype) -> Self {
        let shape = layer.dims().to_vec();
        Self::new(dtype.dtype(), shape, Content::Layer(layer, dtype))
    }

    pub fn values(values: Vec<f32>, dtype: WeightDtype) -> Self {
        let shape = vec![values.len()];
        Self::new(dtype.dtype(), shape, Content::Values(values, dtype))
    }

    pub fn integers(integers: Vec<i32>) -> Self {
        let shape = vec![integers.len()];
        Self::new(Dtype::I32, shape, Content::Integers(integers))
    }

    /// A counter of the finite values that became infinite when they were written.
    pub fn overflows(&self) -> Rc<Cell<usize>> {
        self.overflows.clone()
    }

    fn new(dtype: Dtype, shape: Vec<usize>, content: Content<'a>) -> Self {
        Self {
            dtype,
            shape,
            content,
            overflows: Rc::default(),
        }
    }
}

impl View for OutputTensor<'_> {
    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        let (bytes, overflows) = match &self.content {
            Content::Vector(param, dtype) => dtype.encode(&read(param.val())),
            Content::Matrix(param, dtype) => dtype.encode(&read(param.val())),
            Content::Layer(layer, dtype) => dtype.encode(&MlpMatrix::of("", layer).to_dense()),
            Content::Values(values, dtype) => dtype.encode(values),
            Content::Integers(integers) => {
                (integers.iter().flat_map(|i| i.to_le_bytes()).collect(), 0)
            }
        };
        self.overflows.set(overflows);
        bytes.into()
    }

    fn data_len(&self) -> usize {
        self.shape.iter().product::<usize>() * self.dtype.bitsize() / 8
    }
}
