use super::Idx;
use thiserror::Error;

/// Number of classes of Fashion-MNIST.
pub const CLASSES: usize = 10;

/// Grey images with their classes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Images {
    pixels: Vec<u8>,
    labels: Vec<u8>,
    size: [usize; 2],
}

/// Why images and labels do not belong together.
#[derive(Debug, Error, PartialEq, Eq)]
pub enum ImagesError {
    /// There is nothing to learn.
    #[error("there are no images")]
    Empty,
    /// The images have no pixels.
    #[error("the images have {0} x {1} pixels")]
    NoPixels(usize, usize),
    /// Another number of labels than of images.
    #[error("there are {images} images, but {labels} labels")]
    Counts {
        /// Number of images.
        images: usize,
        /// Number of labels.
        labels: usize,
    },
    /// A label is not a class.
    #[error("label {label} at position {position} is out of range, expected 0..{CLASSES}")]
    Label {
        /// The label found.
        label: u8,
        /// Its position, counted from 0.
        position: usize,
    },
}

impl Images {
    /// Puts images `[count, height, width]` and labels `[count]` together.
    ///
    /// # Errors
    ///
    /// [`ImagesError`].
    ///
    /// # Panics
    ///
    /// Panics if `images` is not of three dimensions.
    pub fn new(images: Idx, labels: Idx) -> Result<Self, ImagesError> {
        let [count, height, width] = images.dims[..] else {
            panic!("images of {} dimensions, expected 3", images.dims.len());
        };
        if count == 0 {
            return Err(ImagesError::Empty);
        }
        if height * width == 0 {
            return Err(ImagesError::NoPixels(height, width));
        }
        if count != labels.bytes.len() {
            return Err(ImagesError::Counts {
                images: count,
                labels: labels.bytes.len(),
            });
        }
        let wrong = (0..)
            .zip(&labels.bytes)
            .find(|&(_, &label)| label as usize >= CLASSES);
        if let Some((position, &label)) = wrong {
            return Err(ImagesError::Label { label, position });
        }
        Ok(Self {
            pixels: images.bytes,
            labels: labels.bytes,
            size: [height, width],
        })
    }

    /// Number of images, at least 1.
    #[allow(clippy::len_without_is_empty)]
    pub fn len(&self) -> usize {
        self.labels.len()
    }

    /// Height and width of an image.
    pub fn size(&self) -> [usize; 2] {
        self.size
    }

    /// Pixels of an image.
    pub fn features(&self) -> usize {
        self.size[0] * self.size[1]
    }

    /// Class of an image.
    ///
    /// # Panics
    ///
    /// Panics if there are not so many images.
    pub fn label(&self, index: usize) -> u8 {
        self.labels[index]
    }

    /// The pixels of an image, in rows.
    ///
    /// # Panics
    ///
    /// Panics if there are not so many images.
    pub fn pixels(&self, index: usize) -> &[u8] {
        &self.pixels[index * self.features()..][..self.features()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(dims: [usize; 3], labels: &[u8]) -> Result<Images, ImagesError> {
        let bytes = (0..dims.iter().product::<usize>())
            .map(|i| i as u8)
            .collect();
        let images = Idx {
            dims: dims.to_vec(),
            bytes,
        };
        let labels = Idx {
            dims: vec![labels.len()],
            bytes: labels.to_vec(),
        };
        Images::new(images, labels)
    }

    #[test]
    fn an_image_has_its_pixels_and_its_label() {
        let images = pair([2, 1, 3], &[4, 9]).unwrap();
        assert_eq!((images.len(), images.features()), (2, 3));
        assert_eq!((images.pixels(1), images.label(1)), (&[3, 4, 5][..], 9));
    }

    #[test]
    fn images_and_labels_must_fit() {
        let message = |dims, labels: &[u8]| pair(dims, labels).unwrap_err().to_string();
        assert_eq!(message([0, 2, 2], &[]), "there are no images");
        assert_eq!(message([1, 0, 2], &[0]), "the images have 0 x 2 pixels");
        assert_eq!(message([2, 2, 2], &[0]), "there are 2 images, but 1 labels");
        assert_eq!(
            message([2, 2, 2], &[9, 10]),
            "label 10 at position 1 is out of range, expected 0..10"
        );
    }
}
