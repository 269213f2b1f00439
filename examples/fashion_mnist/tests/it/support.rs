use fashion_mnist::{Args, FashionError, Method, Outcome};
use std::{
    fs,
    path::{Path, PathBuf},
};

/// Images of the test data.
pub const TRAIN: usize = 60;
pub const TEST: usize = 30;

/// An idx file of unsigned bytes.
pub fn idx(dims: &[u32], bytes: &[u8]) -> Vec<u8> {
    let mut file = vec![0, 0, 8, dims.len() as u8];
    file.extend(dims.iter().flat_map(|dim| dim.to_be_bytes()));
    file.extend(bytes);
    file
}

/// Images of 4 x 4 pixels that a small network can tell apart: a class is a bright row or column, or
/// one of two squares.
fn images(count: usize) -> (Vec<u8>, Vec<u8>) {
    let mut noise = 12_345_u32;
    let (mut pixels, mut labels) = (Vec::new(), Vec::new());
    for index in 0..count {
        let class = index * 7 % 10;
        labels.push(class as u8);
        for place in 0..16 {
            let (row, column) = (place / 4, place % 4);
            let bright = match class {
                0..4 => row == class,
                4..8 => column == class - 4,
                8 => row < 2 && column < 2,
                _ => row > 1 && column > 1,
            };
            noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let dark = (noise >> 26) as u8;
            pixels.push(if bright { 255 - dark } else { dark });
        }
    }
    (pixels, labels)
}

/// Writes the four files of a tiny data set and returns their folder.
pub fn write_data(dir: &Path) -> PathBuf {
    let folder = dir.join("data");
    fs::create_dir_all(&folder).unwrap();
    for (part, count) in [("train", TRAIN), ("t10k", TEST)] {
        let (pixels, labels) = images(count);
        let count = count as u32;
        let files = [
            ("images-idx3", idx(&[count, 4, 4], &pixels)),
            ("labels-idx1", idx(&[count], &labels)),
        ];
        for (kind, content) in files {
            fs::write(folder.join(format!("{part}-{kind}-ubyte")), content).unwrap();
        }
    }
    folder
}

/// Runs of a moment: three epochs of six steps of a tiny network.
pub fn tiny(dir: &Path) -> Args {
    Args {
        method: vec![Method::SET],
        hidden: Some(vec![12, 8]),
        epsilon: Some(2.0),
        epochs: Some(3),
        batch: Some(10),
        data: Some(write_data(dir)),
        out: Some(dir.join("run")),
        quiet: true,
        #[cfg(feature = "flex")]
        device: Some(fashion_mnist::DeviceChoice::Flex),
        ..Args::default()
    }
}

/// Runs to the end.
pub fn finish(args: &Args) -> Result<Outcome, FashionError> {
    fashion_mnist::run(args)
}
