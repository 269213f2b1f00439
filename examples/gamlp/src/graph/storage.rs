use super::{HopFiles, HopKind, NodeMatrix};
use crate::{CacheError, FeatureMatrix, GamlpError, Interrupt};
use core::ops::ControlFlow;
use rayon::prelude::*;
use std::path::PathBuf;

/// Where propagated matrices lie.
#[derive(Debug, Clone)]
pub(super) enum Storage {
    Memory,
    Files(HopFiles),
}

impl Storage {
    /// Matrices that an earlier run has left; nothing unless all of them are there.
    ///
    /// # Errors
    ///
    /// The first one that is there but cannot be used.
    pub fn open(
        &self,
        kinds: &[HopKind],
        shape: [usize; 2],
    ) -> Result<Option<Vec<NodeMatrix>>, CacheError> {
        let Self::Files(files) = self else {
            return Ok(None);
        };
        let open = |&kind| Ok(files.open(kind, shape)?.map(NodeMatrix::from));
        kinds.par_iter().map(open).collect()
    }

    /// New matrices of the same shape, which `fill` is given full of zeros; nothing if it breaks off, or
    /// an interrupt comes before.
    ///
    /// # Errors
    ///
    /// An error if a file cannot be written; none appears under its name then.
    pub fn fill(
        &self,
        kinds: &[HopKind],
        shape: [usize; 2],
        interrupt: &Interrupt,
        fill: impl FnOnce(&mut [&mut [f32]]) -> ControlFlow<()>,
    ) -> Result<Option<Vec<NodeMatrix>>, CacheError> {
        let [nodes, width] = shape;
        match self {
            Self::Memory => {
                let zeros = || vec![0.0; nodes * width];
                let mut matrices: Vec<Vec<f32>> = kinds.iter().map(|_| zeros()).collect();
                let mut views: Vec<_> = matrices.iter_mut().map(|values| &mut values[..]).collect();
                if fill(&mut views).is_break() {
                    return Ok(None);
                }
                let matrices = matrices.into_iter();
                let matrices = matrices.map(|values| FeatureMatrix { width, values }.into());
                Ok(Some(matrices.collect()))
            }
            Self::Files(files) => {
                let Some(mut writers) = files.create(kinds, shape, interrupt)? else {
                    return Ok(None);
                };
                let mut views: Vec<_> = writers.iter_mut().map(|w| w.values_mut()).collect();
                if fill(&mut views).is_break() {
                    return Ok(None);
                }
                let finished = writers.into_par_iter().map(|writer| writer.finish());
                finished.map(|matrix| Ok(Some(matrix?.into()))).collect()
            }
        }
    }

    /// A new matrix that no later run can use, which `fill` is given full of zeros. A file of it has no
    /// name and goes with its last user.
    ///
    /// # Errors
    ///
    /// An error if a file cannot be written.
    pub fn fill_unnamed(
        &self,
        kind: HopKind,
        shape: [usize; 2],
        fill: impl FnOnce(&mut [f32]),
    ) -> Result<NodeMatrix, CacheError> {
        let [nodes, width] = shape;
        match self {
            Self::Memory => {
                let mut values = vec![0.0; nodes * width];
                fill(&mut values);
                Ok(FeatureMatrix { width, values }.into())
            }
            Self::Files(files) => {
                let writers = files.create(&[kind], shape, &Interrupt::never())?;
                let writer = writers.and_then(|mut writers| writers.pop());
                let mut writer = writer.expect("one matrix was asked for");
                fill(writer.values_mut());
                Ok(writer.finish_unnamed()?.into())
            }
        }
    }

    /// What a file that cannot be written ends a run with.
    pub fn failure(&self, source: CacheError) -> GamlpError {
        let folder = match self {
            Self::Memory => PathBuf::new(),
            Self::Files(files) => files.folder().to_owned(),
        };
        GamlpError::HopFiles { folder, source }
    }

    /// The matrix itself, or a file of it; nothing if an interrupt comes.
    ///
    /// # Errors
    ///
    /// As [`fill`](Self::fill).
    pub fn keep(
        &self,
        kind: HopKind,
        matrix: FeatureMatrix,
        interrupt: &Interrupt,
    ) -> Result<Option<NodeMatrix>, CacheError> {
        match self {
            Self::Memory => Ok(Some(matrix.into())),
            Self::Files(_) => {
                let shape = [matrix.values.len() / matrix.width.max(1), matrix.width];
                let copy = |views: &mut [&mut [f32]]| {
                    views[0].copy_from_slice(&matrix.values);
                    ControlFlow::Continue(())
                };
                let kept = self.fill(&[kind], shape, interrupt, copy)?;
                Ok(kept.and_then(|mut kept| kept.pop()))
            }
        }
    }
}
