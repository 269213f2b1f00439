use crate::support::{TRAIN, finish, idx, tiny, write_data};
use fashion_mnist::Dataset;
use flate2::{Compression, write::GzEncoder};
use std::{fs, io::Write, path::Path};

fn message(folder: &Path) -> String {
    Dataset::open(folder).unwrap_err().to_string()
}

#[test]
fn files_are_read_plain_and_gzipped() {
    let dir = tempfile::tempdir().unwrap();
    let folder = write_data(dir.path());
    let plain = Dataset::open(&folder).unwrap();
    assert_eq!((plain.train().len(), plain.features()), (TRAIN, 16));

    let path = folder.join("train-images-idx3-ubyte");
    let content = fs::read(&path).unwrap();
    let packed = fs::File::create(folder.join("train-images-idx3-ubyte.gz")).unwrap();
    let mut encoder = GzEncoder::new(packed, Compression::fast());
    encoder.write_all(&content).unwrap();
    encoder.finish().unwrap();
    fs::remove_file(&path).unwrap();
    assert_eq!(Dataset::open(&folder).unwrap().train(), plain.train());
}

#[test]
fn a_missing_file_says_where_the_data_comes_from() {
    let dir = tempfile::tempdir().unwrap();
    let message = message(dir.path());
    assert!(
        message.contains("train-images-idx3-ubyte.gz (nor the same without .gz)"),
        "{message}"
    );
    assert!(message.contains("dataset-fashion-mnist"), "{message}");
    assert!(
        message.contains("/usr/share/datasets/fashion-mnist"),
        "{message}"
    );
}

#[test]
fn files_that_cannot_be_used_are_named_with_their_fault() {
    let dir = tempfile::tempdir().unwrap();
    let cases: [(&str, Vec<u8>, &str); 7] = [
        (
            "train-images-idx3-ubyte",
            idx(&[60], &[0; 60]),
            "train-images-idx3-ubyte cannot be used: its magic number is 0x00000801",
        ),
        (
            "train-images-idx3-ubyte",
            idx(&[60, 4, 4], &[0; 959]),
            "train-images-idx3-ubyte cannot be used: it ends after 959 of the 960 elements",
        ),
        (
            "t10k-labels-idx1-ubyte",
            idx(&[29], &[0; 29]),
            "t10k-images-idx3-ubyte and its labels cannot be used: there are 30 images, but 29 labels",
        ),
        (
            "train-labels-idx1-ubyte",
            idx(&[60], &[&[9; 59][..], &[10]].concat()),
            "label 10 at position 59 is out of range, expected 0..10",
        ),
        (
            "train-images-idx3-ubyte",
            idx(&[0, 4, 4], &[]),
            "there are no images",
        ),
        (
            "t10k-images-idx3-ubyte",
            Vec::new(),
            "it ends after 0 bytes, inside its header",
        ),
        (
            "t10k-images-idx3-ubyte",
            idx(&[30, 4, 3], &[0; 360]),
            "training images have 4 x 4 pixels, test images 4 x 3",
        ),
    ];
    for (name, content, expected) in cases {
        let folder = write_data(dir.path());
        fs::write(folder.join(name), content).unwrap();
        let message = message(&folder);
        assert!(message.contains(expected), "{message}");
    }
}

#[test]
fn data_that_cannot_be_used_leaves_no_results() {
    let dir = tempfile::tempdir().unwrap();
    let mut args = tiny(dir.path());
    args.data = Some(dir.path().join("absent"));
    assert!(finish(&args).unwrap_err().to_string().contains("absent"));
    assert!(!dir.path().join("run").exists());

    let mut args = tiny(dir.path());
    args.batch = Some(61);
    let message = finish(&args).unwrap_err().to_string();
    assert_eq!(
        message,
        "--batch is 61, but must be at most 60, the training images"
    );
    assert!(!dir.path().join("run").exists());
}
