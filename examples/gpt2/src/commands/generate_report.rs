use crate::{DecodeMemory, DeviceChoice, Generation, MlpMode, SamplingOptions};
use core::fmt;
use example_support::{counted, grouped};
use serde_json::{Value, json};
use std::path::PathBuf;

/// What `gpt2_generate` wrote, how fast, and in how much memory.
#[derive(Debug, Clone, PartialEq)]
pub struct GenerateReport {
    /// Where the weights came from.
    pub model: PathBuf,
    /// Where it computed.
    pub device: DeviceChoice,
    /// Storage of the MLP matrices.
    pub mode: MlpMode,
    /// How tokens were chosen.
    pub sampling: SamplingOptions,
    /// The text behind the prompt.
    pub text: String,
    /// Seconds to set up the caches and to record a step.
    pub prepare_seconds: f64,
    /// Whether steps were replayed as one hardware graph.
    pub recorded: bool,
    /// Memory of weights and caches.
    pub memory: DecodeMemory,
    /// Tokens and times.
    pub generation: Generation,
}

impl GenerateReport {
    /// One JSON object. What was not measured is `null`.
    pub fn to_json(&self) -> Value {
        let generation = &self.generation;
        json!({
            "model": self.model.to_string_lossy(),
            "device": self.device,
            "mode": self.mode.to_string(),
            "sampling": self.sampling,
            "text": self.text,
            "tokens": generation.tokens,
            "prompt_tokens": generation.prompt_tokens,
            "prepare_seconds": self.prepare_seconds,
            "recorded": self.recorded,
            "prefill": {
                "seconds": generation.prefill_seconds,
                "tokens_per_second": generation.prefill_speed(),
            },
            "decode": {
                "tokens": generation.decoded,
                "seconds": generation.decode_seconds,
                "tokens_per_second": generation.decode_speed(),
                "ms_per_token": generation.decode_speed().map(|speed| 1e3 / speed),
                "mj_per_token": generation.mj_per_token(),
            },
            "memory": self.memory,
        })
    }
}

impl fmt::Display for GenerateReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let generation = &self.generation;
        writeln!(
            f,
            "prompt: {} in {:.3} s, {:.1} tokens per second",
            counted(generation.prompt_tokens, "token"),
            generation.prefill_seconds,
            generation.prefill_speed()
        )?;
        let how = match self.recorded {
            true => "replayed",
            false => "step by step",
        };
        write!(f, "text: {}", counted(generation.tokens.len(), "token"))?;
        match generation.decode_speed() {
            Some(speed) => writeln!(
                f,
                "; after the first {:.3} s, {speed:.1} tokens per second, {:.3} ms per token ({how} on {})",
                generation.decode_seconds,
                1e3 / speed,
                self.device
            )?,
            None => writeln!(f, " on {}", self.device)?,
        }
        if let Some(used) = generation.mj_per_token() {
            writeln!(f, "energy: {used:.1} mJ per token after the first")?;
        }
        let number = |bytes: usize| grouped(bytes as u64);
        let memory = &self.memory;
        write!(
            f,
            "bytes: weights {}, indices {}, keys and values {}",
            number(memory.weights),
            number(memory.indices),
            number(memory.kv_cache)
        )?;
        if let (Some(used), Some(reserved)) = (memory.device_in_use, memory.device_reserved) {
            let (used, reserved) = (grouped(used), grouped(reserved));
            write!(f, "; the device has {used} in use and {reserved} reserved")?;
        }
        if let Some(nvml) = memory.nvml {
            write!(f, ", NVML says {}", grouped(nvml))?;
        }
        Ok(())
    }
}
