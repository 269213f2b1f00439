use super::{WeightDtype, WeightFileError};
use crate::{Gpt2Config, MlpMode};
use serde_json::{Map, Value, json};
use std::{fs, path::Path};

/// A `config.json` of Hugging Face transformers, for a model that this crate can build.
#[derive(Debug, Clone, PartialEq)]
pub struct HfConfig {
    /// Sizes and dropouts.
    pub model: Gpt2Config,
    /// The keys of the file, which are written back where the model does not say otherwise.
    source: Map<String, Value>,
}

/// Flags of which only one value is supported: the value that transformers assumes.
const FLAGS: [(&str, bool); 5] = [
    ("scale_attn_weights", true),
    ("scale_attn_by_inverse_layer_idx", false),
    ("reorder_and_upcast_attn", false),
    ("tie_word_embeddings", true),
    ("add_cross_attention", false),
];

/// Names of the tanh form of GELU.
const ACTIVATIONS: [&str; 2] = ["gelu_new", "gelu_pytorch_tanh"];

impl HfConfig {
    /// The configuration of a model that did not come from Hugging Face.
    pub fn new(model: Gpt2Config) -> Self {
        Self {
            model,
            source: Map::new(),
        }
    }

    /// Reads a `config.json`; the model is dense.
    ///
    /// # Errors
    ///
    /// [`WeightFileError::Config`] for a value that is missing, out of range or not supported;
    /// [`WeightFileError::Json`] or [`WeightFileError::Io`] if the file cannot be read.
    pub fn read(path: &Path) -> Result<Self, WeightFileError> {
        let text = fs::read_to_string(path).map_err(WeightFileError::io("read", path))?;
        let keys: Map<String, Value> =
            serde_json::from_str(&text).map_err(|error| WeightFileError::Json {
                path: path.to_owned(),
                reason: format!("it is no JSON object: {error}"),
            })?;
        let file = Keys { path, keys: &keys };
        file.check_supported()?;
        let width = file.size("n_embd", 16_384)?;
        let heads = file.size("n_head", width)?;
        if !width.is_multiple_of(heads) {
            let allowed = format!("a divisor of n_embd {width}");
            return Err(file.refuse("n_head", &json!(heads), allowed));
        }
        let [embedding, attention, residual] = [
            file.probability("embd_pdrop")?,
            file.probability("attn_pdrop")?,
            file.probability("resid_pdrop")?,
        ];
        let other_than = |value: f64| (value != embedding).then_some(value);
        let inner = match keys.get("n_inner") {
            None | Some(Value::Null) => None,
            Some(_) => Some(file.size("n_inner", 65_536)?).filter(|&inner| inner != 4 * width),
        };
        let model = Gpt2Config::new(
            file.size("n_layer", 192)?,
            width,
            heads,
            file.size("n_positions", 65_536)?,
        )
        .with_vocabulary(file.size("vocab_size", 1 << 20)?)
        .with_mode(MlpMode::Dense)
        .with_sparsity(0.0)
        .with_epsilon(file.epsilon()?)
        .with_dropout(embedding)
        .with_attention_dropout(other_than(attention))
        .with_residual_dropout(other_than(residual))
        .with_inner_width(inner);
        Ok(Self {
            model,
            source: keys,
        })
    }

    /// The text of the file: all keys that transformers needs to load the weights, and those that the
    /// model's own `config.json` had beside them.
    pub fn to_json(&self, dtype: WeightDtype) -> String {
        let model = &self.model;
        let [embedding, attention, residual] = model.dropouts();
        let gpt2_text = model.vocabulary == 50_257;
        let end_of_text = gpt2_text.then_some(50_256);
        let mut keys = self.source.clone();
        for (key, value) in [
            ("activation_function", json!(ACTIVATIONS[0])),
            ("bos_token_id", json!(end_of_text)),
            ("eos_token_id", json!(end_of_text)),
            ("initializer_range", json!(0.02)),
            ("use_cache", json!(true)),
        ] {
            keys.entry(key).or_insert(value);
        }
        for (key, value) in FLAGS {
            keys.insert(key.into(), json!(value));
        }
        for (key, value) in [
            ("architectures", json!(["GPT2LMHeadModel"])),
            ("model_type", json!("gpt2")),
            ("n_layer", json!(model.layers)),
            ("n_embd", json!(model.width)),
            ("n_head", json!(model.heads)),
            ("n_positions", json!(model.context)),
            ("n_inner", json!(model.inner_width)),
            ("vocab_size", json!(model.vocabulary)),
            ("layer_norm_epsilon", json!(model.epsilon)),
            ("embd_pdrop", json!(embedding)),
            ("attn_pdrop", json!(attention)),
            ("resid_pdrop", json!(residual)),
            ("torch_dtype", json!(dtype.torch_name())),
        ] {
            keys.insert(key.into(), value);
        }
        // The key that newer versions of transformers write instead of `torch_dtype`.
        keys.remove("dtype");
        let text = serde_json::to_string_pretty(&keys).expect("all keys are strings");
        text + "\n"
    }
}

/// The keys of a file that is being read.
struct Keys<'a> {
    path: &'a Path,
    keys: &'a Map<String, Value>,
}

impl Keys<'_> {
    fn refuse(&self, key: &'static str, found: &Value, allowed: String) -> WeightFileError {
        WeightFileError::Config {
            path: self.path.to_owned(),
            key,
            found: match found {
                Value::Null => "missing".into(),
                found => found.to_string(),
            },
            allowed,
        }
    }

    fn get(&self, key: &str) -> &Value {
        self.keys.get(key).unwrap_or(&Value::Null)
    }

    /// A number between 1 and `max`.
    fn size(&self, key: &'static str, max: usize) -> Result<usize, WeightFileError> {
        let found = self.get(key);
        let size = found
            .as_u64()
            .and_then(|number| usize::try_from(number).ok());
        size.filter(|size| (1..=max).contains(size))
            .ok_or_else(|| self.refuse(key, found, format!("between 1 and {max}")))
    }

    /// A dropout; transformers' default where it is absent.
    fn probability(&self, key: &'static str) -> Result<f64, WeightFileError> {
        match self.get(key) {
            Value::Null => Ok(0.1),
            found => found
                .as_f64()
                .filter(|p| (0.0..1.0).contains(p))
                .ok_or_else(|| self.refuse(key, found, "at least 0 and below 1".into())),
        }
    }

    fn epsilon(&self) -> Result<f64, WeightFileError> {
        const KEY: &str = "layer_norm_epsilon";
        match self.get(KEY) {
            Value::Null => Ok(1e-5),
            found => found
                .as_f64()
                .filter(|epsilon| *epsilon > 0.0 && *epsilon <= 1.0)
                .ok_or_else(|| self.refuse(KEY, found, "above 0 and at most 1".into())),
        }
    }

    /// Refuses another architecture, activation function or variant of the attention.
    fn check_supported(&self) -> Result<(), WeightFileError> {
        let found = self.get("model_type");
        if !found.is_null() && found != "gpt2" {
            return Err(self.refuse("model_type", found, "\"gpt2\"".into()));
        }
        let found = self.get("activation_function");
        if !found.is_null() && !ACTIVATIONS.iter().any(|name| found == name) {
            let allowed = ACTIVATIONS.map(|name| format!("{name:?}")).join(" or ");
            return Err(self.refuse("activation_function", found, allowed));
        }
        for (key, supported) in FLAGS {
            let found = self.get(key);
            if !found.is_null() && *found != supported {
                return Err(self.refuse(key, found, supported.to_string()));
            }
        }
        Ok(())
    }
}
