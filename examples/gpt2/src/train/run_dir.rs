use example_support::RunFiles;

/// The pictures of a run, in the order of [`write_pictures`](super::write_pictures).
pub(super) const PICTURES: [&str; 4] = ["loss.svg", "perplexity.svg", "density.svg", "memory.svg"];

/// The files of a run of `gpt2_dst`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpt2Files;

impl RunFiles for Gpt2Files {
    const PICTURES: &'static [&'static str] = &PICTURES;
}

/// The folder of one run.
pub type RunDir = example_support::RunDir<Gpt2Files>;
