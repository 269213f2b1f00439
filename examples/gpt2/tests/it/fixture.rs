//! Small weight files in the layout of Hugging Face, written by the tests themselves.

use safetensors::{Dtype, SafeTensors, tensor::TensorView};
use serde_json::{Value, json};
use std::{
    collections::{BTreeMap, HashMap},
    fs,
    path::{Path, PathBuf},
};

/// A tensor of a file: type, shape and bytes.
pub type Stored = (Dtype, Vec<usize>, Vec<u8>);

/// The files of a model of 2 blocks of width 4, to be changed before they are written.
#[derive(Clone)]
pub struct Fixture {
    pub config: Value,
    pub tensors: BTreeMap<String, Stored>,
}

impl Fixture {
    /// 11 tokens, context 6, 2 heads; names without prefix, in f32.
    pub fn new() -> Self {
        Self::with_sizes(11, 6)
    }

    pub fn with_sizes(vocabulary: usize, context: usize) -> Self {
        let config = json!({
            "activation_function": "gelu_new",
            "attn_pdrop": 0.0,
            "bos_token_id": 3,
            "embd_pdrop": 0.0,
            "layer_norm_epsilon": 1e-5,
            "model_type": "gpt2",
            "n_embd": 4,
            "n_head": 2,
            "n_inner": null,
            "n_layer": 2,
            "n_positions": context,
            "resid_pdrop": 0.0,
            "vocab_size": vocabulary,
        });
        let mut fixture = Self {
            config,
            tensors: BTreeMap::new(),
        };
        fixture.fill("wte.weight", &[vocabulary, 4]);
        fixture.fill("wpe.weight", &[context, 4]);
        for block in 0..2 {
            let tensors: [(&str, &[usize]); 12] = [
                ("ln_1.weight", &[4]),
                ("ln_1.bias", &[4]),
                ("attn.c_attn.weight", &[4, 12]),
                ("attn.c_attn.bias", &[12]),
                ("attn.c_proj.weight", &[4, 4]),
                ("attn.c_proj.bias", &[4]),
                ("ln_2.weight", &[4]),
                ("ln_2.bias", &[4]),
                ("mlp.c_fc.weight", &[4, 16]),
                ("mlp.c_fc.bias", &[16]),
                ("mlp.c_proj.weight", &[16, 4]),
                ("mlp.c_proj.bias", &[4]),
            ];
            for (name, shape) in tensors {
                fixture.fill(&format!("h.{block}.{name}"), shape);
            }
        }
        fixture.fill("ln_f.weight", &[4]);
        fixture.fill("ln_f.bias", &[4]);
        fixture
    }

    /// Puts numbers into a tensor, new or not.
    pub fn set(&mut self, name: &str, shape: &[usize], values: &[f32]) {
        let bytes = values.iter().flat_map(|value| value.to_le_bytes());
        let tensor = (Dtype::F32, shape.to_vec(), bytes.collect());
        self.tensors.insert(name.into(), tensor);
    }

    /// The numbers of an f32 tensor.
    pub fn values(&self, name: &str) -> Vec<f32> {
        floats(&self.tensors[name])
    }

    /// The same tensors with `transformer.` before every name.
    pub fn prefixed(mut self) -> Self {
        let tensors = std::mem::take(&mut self.tensors).into_iter();
        self.tensors = tensors
            .map(|(name, tensor)| (format!("transformer.{name}"), tensor))
            .collect();
        self
    }

    /// Writes `config.json` and `model.safetensors`.
    pub fn write(&self, dir: &Path) -> PathBuf {
        self.write_config(dir);
        let path = dir.join("model.safetensors");
        write_tensors(&path, &self.tensors);
        path
    }

    pub fn write_config(&self, dir: &Path) {
        fs::create_dir_all(dir).unwrap();
        fs::write(dir.join("config.json"), self.config.to_string()).unwrap();
    }

    /// Different numbers for every tensor, in `(-0.5, 0.5)`.
    fn fill(&mut self, name: &str, shape: &[usize]) {
        let start: usize = name.bytes().map(usize::from).sum();
        let count: usize = shape.iter().product();
        let value = |i: usize| ((i * 389 + start * 71) % 997) as f32 / 997.0 - 0.5;
        let values: Vec<f32> = (0..count).map(value).collect();
        self.set(name, shape, &values);
    }
}

/// Writes a safetensors file.
pub fn write_tensors(path: &Path, tensors: &BTreeMap<String, Stored>) {
    let views = tensors.iter().map(|(name, (dtype, shape, bytes))| {
        let view = TensorView::new(*dtype, shape.clone(), bytes).unwrap();
        (name.clone(), view)
    });
    let notes = HashMap::from([("format".to_string(), "pt".to_string())]);
    fs::write(path, safetensors::serialize(views, Some(notes)).unwrap()).unwrap();
}

/// Reads a safetensors file.
pub fn read_tensors(path: &Path) -> BTreeMap<String, Stored> {
    let bytes = fs::read(path).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    file.iter()
        .map(|(name, view)| {
            let stored = (view.dtype(), view.shape().to_vec(), view.data().to_vec());
            (name.to_string(), stored)
        })
        .collect()
}

/// The numbers of an f32 tensor.
pub fn floats((dtype, _, bytes): &Stored) -> Vec<f32> {
    assert_eq!(*dtype, Dtype::F32);
    let (words, _) = bytes.as_chunks::<4>();
    words.iter().map(|word| f32::from_le_bytes(*word)).collect()
}

/// The numbers of an integer tensor.
pub fn integers((dtype, _, bytes): &Stored) -> Vec<i64> {
    match dtype {
        Dtype::I32 => {
            let (words, _) = bytes.as_chunks::<4>();
            words
                .iter()
                .map(|word| i32::from_le_bytes(*word).into())
                .collect()
        }
        Dtype::I64 => {
            let (words, _) = bytes.as_chunks::<8>();
            words.iter().map(|word| i64::from_le_bytes(*word)).collect()
        }
        other => panic!("{other:?} is no integer type of the tests"),
    }
}

/// Writes a file with this header, the data being zeros.
pub fn write_raw(path: &Path, header: &str, data: usize) {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.bytes());
    bytes.resize(bytes.len() + data, 0);
    fs::write(path, bytes).unwrap();
}
