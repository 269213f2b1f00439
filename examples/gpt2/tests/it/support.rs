use burn::{
    module::{Module, ModuleVisitor, Param},
    tensor::{Device, Int, Tensor},
};
use gpt2::{Args, Corpus, Gpt2Error, Interrupt, LogLine, MlpMode, Outcome, TextLoader, Tokenizer};
use std::{
    fs,
    path::{Path, PathBuf},
    sync::{Mutex, MutexGuard, PoisonError},
};

/// The CPU device where there is one, so that bits can be compared.
pub fn device() -> Device {
    #[cfg(feature = "flex")]
    return Device::flex();
    #[cfg(not(feature = "flex"))]
    Device::default()
}

/// To be held while training with dropout: all threads share the random stream of a device, from which
/// a run draws the same numbers only if nobody else draws from it.
pub fn random_stream() -> MutexGuard<'static, ()> {
    static STREAM: Mutex<()> = Mutex::new(());
    STREAM.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A run of a second: 40 steps of a tiny model with topology updates at 6, 12, ..., 30.
pub fn tiny(out: &Path) -> Args {
    Args {
        sparsity: Some(0.8),
        layers: Some(2),
        width: Some(16),
        heads: Some(2),
        context: Some(16),
        batch: Some(4),
        steps: Some(40),
        mode: Some(MlpMode::Sparse),
        update_every: Some(6),
        eval_every: Some(20),
        checkpoint_every: Some(16),
        text: vec![text(out)],
        out: Some(out.join("run")),
        token_cache: Some(out.join("tokens")),
        quiet: true,
        #[cfg(feature = "flex")]
        device: Some(gpt2::DeviceChoice::Flex),
        ..Args::default()
    }
}

/// Runs to the end.
pub fn finish(args: &Args) -> Result<Outcome, Gpt2Error> {
    gpt2::run(args, &Interrupt::never())
}

/// The corpus of a run at byte level.
pub fn load(paths: &[PathBuf]) -> Corpus {
    let (text, _) = TextLoader::default().load(paths, Tokenizer::Bytes).unwrap();
    Corpus::split(&text)
}

/// The lines of a run's log.
pub fn log_lines(out: &Path) -> Vec<LogLine> {
    let text = fs::read_to_string(out.join("run/log.jsonl")).unwrap();
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

/// Every parameter of a module with its path, floats as bits.
pub fn bits<M: Module>(module: &M) -> Vec<(String, Vec<i64>)> {
    let mut collector = Collector::default();
    module.visit(&mut collector);
    collector.found
}

#[derive(Default)]
struct Collector {
    path: Vec<String>,
    found: Vec<(String, Vec<i64>)>,
}

impl ModuleVisitor for Collector {
    fn enter_module(&mut self, name: &str, _container: &str) {
        self.path.push(name.to_string());
    }

    fn exit_module(&mut self, _name: &str, _container: &str) {
        self.path.pop();
    }

    fn visit_float<const D: usize>(&mut self, param: &Param<Tensor<D>>) {
        let data = param.val().into_data();
        let bits = data.iter::<f32>().map(|value| value.to_bits().into());
        self.found.push((self.path.join("."), bits.collect()));
    }

    fn visit_int<const D: usize>(&mut self, param: &Param<Tensor<D, Int>>) {
        let data = param.val().into_data();
        self.found
            .push((self.path.join("."), data.iter::<i64>().collect()));
    }
}

/// A small text file, the same for every test.
fn text(dir: &Path) -> PathBuf {
    let path = dir.join("text.txt");
    let words = [
        "to be ",
        "or not ",
        "that is ",
        "the question\n",
        "whether ",
    ];
    let text: String = (0..1500).map(|i| words[i * i % 7 % 5]).collect();
    fs::write(&path, text).unwrap();
    path
}
