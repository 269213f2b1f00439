use super::{IdxError, Images, ImagesError, read_idx};
use crate::FashionError;
use serde::{Deserialize, Serialize};
use std::{
    fs::File,
    io::{self, BufReader},
    path::{Path, PathBuf},
};

/// A file of the subset that ships with the example; `data/README.md` says how it was drawn.
macro_rules! shipped {
    ($name:literal) => {
        include_bytes!(concat!("../../data/subset/", $name, "-ubyte.gz")).as_slice()
    };
}

/// Images to learn from and images to test on.
#[derive(Debug, Clone)]
pub struct Dataset {
    id: DatasetId,
    train: Images,
    test: Images,
}

/// What tells one data set from another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct DatasetId {
    /// Where the images came from.
    pub name: String,
    /// Number of images to learn from.
    pub train: usize,
    /// Number of images to test on.
    pub test: usize,
    /// Pixels of an image.
    pub features: usize,
}

impl Dataset {
    /// The 2 000 training and 1 000 test images that ship with the example.
    pub fn subset() -> Self {
        let part = |images, labels| {
            let images = read_idx(images, 3).expect("the shipped images are valid");
            let labels = read_idx(labels, 1).expect("the shipped labels are valid");
            Images::new(images, labels).expect("the shipped images and labels fit")
        };
        Self::new(
            "shipped subset".into(),
            part(shipped!("train-images-idx3"), shipped!("train-labels-idx1")),
            part(shipped!("t10k-images-idx3"), shipped!("t10k-labels-idx1")),
        )
    }

    /// Reads the four idx files from a folder, gzipped (`.gz`) or not.
    ///
    /// # Errors
    ///
    /// [`FashionError::MissingFile`], [`FashionError::Read`], [`FashionError::Idx`] or
    /// [`FashionError::Images`], each with the file; [`FashionError::Sizes`] if training and test
    /// images differ in size.
    pub fn open(folder: &Path) -> Result<Self, FashionError> {
        let train = part(folder, "train")?;
        let test = part(folder, "t10k")?;
        if train.size() != test.size() {
            return Err(FashionError::Sizes {
                folder: folder.to_owned(),
                train: train.size(),
                test: test.size(),
            });
        }
        Ok(Self::new(folder.display().to_string(), train, test))
    }

    fn new(name: String, train: Images, test: Images) -> Self {
        let id = DatasetId {
            name,
            train: train.len(),
            test: test.len(),
            features: train.features(),
        };
        Self { id, train, test }
    }

    /// What tells this data set from another.
    pub fn id(&self) -> &DatasetId {
        &self.id
    }

    /// The images to learn from.
    pub fn train(&self) -> &Images {
        &self.train
    }

    /// The images to test on.
    pub fn test(&self) -> &Images {
        &self.test
    }

    /// Pixels of an image.
    pub fn features(&self) -> usize {
        self.id.features
    }
}

fn part(folder: &Path, name: &str) -> Result<Images, FashionError> {
    let (images_path, images) = file(folder, &format!("{name}-images-idx3-ubyte"), 3)?;
    let (_, labels) = file(folder, &format!("{name}-labels-idx1-ubyte"), 1)?;
    Images::new(images, labels).map_err(|source: ImagesError| FashionError::Images {
        path: images_path,
        source,
    })
}

/// Reads `NAME`, or else `NAME.gz`.
fn file(
    folder: &Path,
    name: &str,
    dimensions: usize,
) -> Result<(PathBuf, super::Idx), FashionError> {
    let plain = folder.join(name);
    let packed = folder.join(format!("{name}.gz"));
    for path in [&plain, &packed] {
        let content = match File::open(path) {
            Ok(file) => BufReader::new(file),
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            Err(source) => {
                let path = path.clone();
                return Err(FashionError::Read { path, source });
            }
        };
        return match read_idx(content, dimensions) {
            Ok(idx) => Ok((path.clone(), idx)),
            Err(IdxError::Read(source)) => {
                let path = path.clone();
                Err(FashionError::Read { path, source })
            }
            Err(source) => Err(idx_error(path, source)),
        };
    }
    Err(FashionError::MissingFile { path: packed })
}

fn idx_error(path: &Path, source: IdxError) -> FashionError {
    FashionError::Idx {
        path: path.to_owned(),
        source,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shipped_subset_is_the_one_of_the_readme() {
        let subset = Dataset::subset();
        assert_eq!(
            (subset.train().len(), subset.test().len(), subset.features()),
            (2000, 1000, 784)
        );
        let classes = |images: &Images| {
            let mut counts = [0; super::super::CLASSES];
            for index in 0..images.len() {
                counts[images.label(index) as usize] += 1;
            }
            counts
        };
        assert_eq!(
            classes(subset.train()),
            [193, 198, 215, 199, 193, 218, 194, 191, 191, 208]
        );
        assert_eq!(
            classes(subset.test()),
            [85, 91, 109, 102, 112, 104, 95, 101, 113, 88]
        );
    }
}
