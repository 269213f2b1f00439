use super::{
    Adjacency, HopFiles, HopKind, LabelSeeds, NodeInputs, NodeMatrix, Propagator, ReliableSet,
    storage::Storage,
};
use crate::{GamlpError, GraphData, GraphId, Interrupt, Progress, print_err};
use burn::tensor::Device;
use core::ops::ControlFlow;
use std::path::PathBuf;

/// Where the inputs of nodes are kept, and what is said while they are made.
#[derive(Debug, Clone)]
pub struct Preparation {
    /// Times that features are propagated.
    pub hops: usize,
    /// Times that labels are propagated.
    pub label_hops: usize,
    /// Most memory of the host for propagated matrices, in bytes; larger ones go into files.
    pub host_bytes: u64,
    /// Most memory of the device for rows of them, in bytes: of the nodes to learn from first.
    pub device_bytes: u64,
    /// Folder of those files.
    pub folder: PathBuf,
    /// Whether other labels will be propagated later.
    pub keep_graph: bool,
    /// Whether to say nothing.
    pub quiet: bool,
    /// What may stop the propagation.
    pub interrupt: Interrupt,
}

impl Preparation {
    /// In memory of the host, and silently.
    pub fn in_memory([hops, label_hops]: [usize; 2]) -> Self {
        Self {
            hops,
            label_hops,
            host_bytes: u64::MAX,
            device_bytes: 0,
            folder: PathBuf::new(),
            keep_graph: true,
            quiet: true,
            interrupt: Interrupt::never(),
        }
    }

    /// In files of `folder`, and silently.
    pub fn in_files(hops: [usize; 2], folder: impl Into<PathBuf>) -> Self {
        Self {
            host_bytes: 0,
            folder: folder.into(),
            ..Self::in_memory(hops)
        }
    }

    /// Bytes of all matrices that are propagated from a graph, the features as given among them.
    pub fn bytes(&self, data: &GraphData) -> u64 {
        let width = (self.hops + 1) * data.features.width + data.labels.classes();
        data.nodes() as u64 * width as u64 * size_of::<f32>() as u64
    }

    /// Where the matrices of a graph lie.
    pub(super) fn storage(&self, id: &GraphId, data: &GraphData) -> Storage {
        match self.bytes(data) > self.host_bytes {
            true => Storage::Files(HopFiles::new(&self.folder, id)),
            false => Storage::Memory,
        }
    }

    /// Propagates the features, which it takes, and the labels to learn from; what lies in files from
    /// an earlier run is used again. Also returns the matrix of the graph, if that was needed.
    ///
    /// # Errors
    ///
    /// [`GamlpError::Graph`] if the graph does not fit into a sparse matrix; [`GamlpError::HopFiles`]
    /// if a file cannot be written; [`GamlpError::Interrupted`] if an interrupt comes.
    pub(super) fn inputs(
        &self,
        id: &GraphId,
        data: &mut GraphData,
        storage: &Storage,
        device: &Device,
    ) -> Result<(NodeInputs, Option<Propagator>), GamlpError> {
        let (nodes, width, classes) = (data.nodes(), data.features.width, data.labels.classes());
        let features_given = HopKind::Features(0);
        let hops: Vec<_> = (1..=self.hops).map(HopKind::Features).collect();
        let labels = [HopKind::Labels(self.label_hops)];
        let all: Vec<_> = [features_given].into_iter().chain(hops.clone()).collect();
        let kept_hops = self.reuse(storage, &all, [nodes, width]);
        let kept_labels = self.reuse(storage, &labels, [nodes, classes]);

        let needed = kept_hops.is_none() || kept_labels.is_none() || self.keep_graph;
        let propagator = match needed {
            true => Some(propagator(id, data, device)?),
            false => None,
        };
        // Only the propagator needs them from here on.
        data.edges = Vec::new();
        let features = core::mem::take(&mut data.features);
        let Some(graph) = &propagator else {
            let matrices = kept_hops.zip(kept_labels.and_then(|mut kept| kept.pop()));
            let (hops, labels) = matrices.expect("both were found");
            return Ok((NodeInputs::from_matrices(hops, labels), None));
        };

        let failed = |source| storage.failure(source);
        let missing = [
            (kept_hops.is_none(), width, self.hops),
            (kept_labels.is_none(), classes, self.label_hops),
        ];
        let missing = missing.into_iter().filter(|&(missing, ..)| missing);
        let products = missing.map(|(_, width, count)| graph.products(width, count));
        let bar = Progress::of_products(products.sum(), self.quiet);
        let interrupt = &self.interrupt;
        let mut done = || {
            bar.next_product();
            match interrupt.is_requested(0) {
                true => ControlFlow::Break(()),
                false => ControlFlow::Continue(()),
            }
        };
        let stopped = || {
            bar.finish();
            GamlpError::Interrupted
        };
        let hops = match kept_hops {
            Some(kept) => kept,
            None => {
                let propagate = |views: &mut [&mut [f32]]| {
                    graph.hops_into(&features.values, width, views, &mut done)
                };
                let propagated = storage.fill(&hops, [nodes, width], interrupt, propagate);
                let mut matrices = propagated.map_err(failed)?.ok_or_else(stopped)?;
                let given = storage.keep(features_given, features, interrupt);
                let given = given.map_err(failed)?.ok_or_else(stopped)?;
                matrices.insert(0, given);
                matrices
            }
        };
        let mut labels = match kept_labels {
            Some(kept) => kept,
            None => {
                let seeds = LabelSeeds::new(data, &ReliableSet::default());
                let propagate = |views: &mut [&mut [f32]]| {
                    seeds.embed_into(graph, self.label_hops, views[0], &mut done)
                };
                let propagated = storage.fill(&labels, [nodes, classes], interrupt, propagate);
                propagated.map_err(failed)?.ok_or_else(stopped)?
            }
        };
        bar.finish();
        let labels = labels.pop().expect("one matrix was asked for");
        Ok((NodeInputs::from_matrices(hops, labels), propagator))
    }

    /// What an earlier run has left, if it can be used.
    fn reuse(
        &self,
        storage: &Storage,
        kinds: &[HopKind],
        shape: [usize; 2],
    ) -> Option<Vec<NodeMatrix>> {
        storage.open(kinds, shape).unwrap_or_else(|error| {
            if !self.quiet {
                let folder = self.folder.display();
                print_err(format_args!(
                    "warning: a file in {folder} is made again: {error}"
                ));
            }
            None
        })
    }
}

fn propagator(id: &GraphId, data: &GraphData, device: &Device) -> Result<Propagator, GamlpError> {
    let adjacency = Adjacency::new(data).map_err(|source| GamlpError::Graph {
        name: id.name.clone(),
        source,
    })?;
    Ok(Propagator::new(
        &adjacency,
        &device.clone().without_autodiff(),
    ))
}
