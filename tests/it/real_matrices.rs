//! Weights of trained networks and matrices of engineering: rows and columns as uneven as pruning
//! and physics leave them.
//!
//! Needs the files of the Deep Learning Matrix Collection and of the SuiteSparse Matrix Collection
//! that the project uses: in `matrices/dlmc` and `matrices/mtx` of the folder that `SNACK_DATA`
//! names.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use snack_burn::prelude::*;

use crate::support::{Backend, Case, assert_close, backends, routines, tensor2, uniform, widen};

fn folder(collection: &str) -> PathBuf {
    let data = env::var("SNACK_DATA")
        .unwrap_or_else(|_| concat!(env!("CARGO_MANIFEST_DIR"), "/../shared/data").to_string());
    Path::new(&data).join("matrices").join(collection)
}

/// The files of a collection with its extension.
fn files(collection: &str, extension: &str) -> Vec<PathBuf> {
    let folder = folder(collection);
    let Ok(entries) = fs::read_dir(&folder) else {
        eprintln!("skipped: no folder {}", folder.display());
        return Vec::new();
    };
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|found| found == extension));
    files.sort();
    files
}

/// First line `rows, cols, nnz`, second line the row offsets, third line the columns.
fn read(path: &Path) -> (Vec<usize>, Vec<usize>, Vec<u32>) {
    let text = fs::read_to_string(path).unwrap();
    let mut lines = text.lines();
    let mut numbers = |separator: char| -> Vec<usize> {
        let words = lines.next().unwrap_or("").split(separator);
        words
            .map(str::trim)
            .filter(|word| !word.is_empty())
            .map(|word| word.parse().unwrap())
            .collect()
    };
    let (sizes, offsets) = (numbers(','), numbers(' '));
    let cols = numbers(' ').into_iter().map(|col| col as u32).collect();
    (sizes, offsets, cols)
}

#[test]
fn products_of_pruned_networks() {
    let mut rng = ChaCha8Rng::seed_from_u64(61);
    let devices: Vec<_> = backends().into_iter().map(Available::new).collect();
    for path in files("dlmc", "smtx") {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let (sizes, offsets, mut cols) = read(&path);
        let [m, k, nnz] = sizes[..] else {
            panic!("{name}: first line {sizes:?}")
        };
        assert_eq!(cols.len(), nnz, "{name}");
        for row in offsets.windows(2) {
            cols[row[0]..row[1]].sort_unstable();
        }
        let pattern = Pattern::from_offsets([m, k], offsets, cols)
            .unwrap_or_else(|error| panic!("{name}: {error}"));
        assert_eq!((pattern.shape(), pattern.nnz()), ([m, k], nnz));
        let case = Case::new(name, [m, k], pattern.iter(), &mut rng);
        assert_eq!(case.pattern(), pattern);

        check_products(&case, &devices, &mut rng);
    }
}

/// Sizes and coordinates of a coordinate file, whatever its values are; both triangles of a
/// symmetric one.
fn read_coordinates(path: &Path) -> ([usize; 2], Vec<(usize, usize)>) {
    let text = fs::read_to_string(path).unwrap();
    let symmetric = text.lines().next().unwrap().contains("symmetric");
    let content = |line: &&str| !line.starts_with('%') && !line.trim().is_empty();
    let mut lines = text.lines().filter(content);
    let numbers = |line: &str| -> Vec<usize> {
        let words = line.split_whitespace().take(3);
        words.filter_map(|word| word.parse().ok()).collect()
    };
    let sizes = numbers(lines.next().unwrap());
    let entries: Vec<_> = lines.map(numbers).map(|n| (n[0] - 1, n[1] - 1)).collect();
    assert_eq!(entries.len(), sizes[2], "{}", path.display());
    let mirrored = entries.iter().filter(|_| symmetric).map(|&(i, j)| (j, i));
    let all = entries.iter().copied().chain(mirrored).collect();
    ([sizes[0], sizes[1]], all)
}

#[test]
fn products_of_matrices_of_engineering() {
    let mut rng = ChaCha8Rng::seed_from_u64(62);
    let devices: Vec<_> = backends().into_iter().map(Available::new).collect();
    for path in files("mtx", "mtx") {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let (shape, coordinates) = read_coordinates(&path);
        let case = Case::new(name, shape, coordinates, &mut rng);
        check_products(&case, &devices, &mut rng);
    }
}

/// Compares the three products of every routine with the reference.
fn check_products(case: &Case, devices: &[Available], rng: &mut ChaCha8Rng) {
    let ([m, k], nnz) = (case.shape, case.nnz());
    let batch = 9;
    let (x, y) = (uniform(batch * k, rng), uniform(batch * m, rng));
    let reference = case.reference();
    let expected = [
        reference.spmm(&widen(&x), batch),
        reference.spmm_transposed(&widen(&y), batch),
        reference.sddmm(&widen(&y), &widen(&x), batch),
    ];
    for Available {
        backend,
        spmm,
        transposed,
        sddmm,
    } in devices
    {
        let device = &backend.device;
        let operand = |numbers: &[f32], width| tensor2(numbers, [batch, width], device);
        let (x, y) = (|| operand(&x, k), || operand(&y, m));
        for &routines in spmm {
            let text = format!("{} of {} on {}", routines.spmm, case.name, backend.name);
            let matrix = case.sparse(device).with_routines(routines);
            assert_close(&text, &matrix.spmm(x()), [batch, m], &expected[0], 1e-5);
        }
        for &routines in transposed {
            let text = format!("{} of {} on {}", routines.spmm, case.name, backend.name);
            let matrix = case.sparse(device).with_routines(routines);
            let back = matrix.spmm_transposed(y());
            assert_close(&text, &back, [batch, k], &expected[1], 1e-5);
        }
        for &routines in sddmm {
            let text = format!("{} of {} on {}", routines.sddmm, case.name, backend.name);
            let found = case.sparse(device).with_routines(routines).sddmm(y(), x());
            assert_close(&text, found.values(), [nnz], &expected[2], 1e-5);
        }
    }
}

/// A back end and its routines; on a GPU not those that are made of dense products or measured,
/// which every shape starts anew.
struct Available {
    backend: Backend,
    spmm: Vec<Routines>,
    transposed: Vec<Routines>,
    sddmm: Vec<Routines>,
}

impl Available {
    fn new(backend: Backend) -> Self {
        let (mut spmm, mut sddmm) = (routines::spmm(&backend), routines::sddmm(&backend));
        let mut transposed = routines::spmm_transposed(&backend);
        if backend.is_cube() {
            for routines in [&mut spmm, &mut transposed] {
                routines.retain(|routines| {
                    use SpmmRoutine::{Auto, Composed, Panel};
                    !matches!(routines.spmm, Auto | Composed | Panel)
                });
            }
            sddmm.retain(|routines| {
                use SddmmRoutine::{Auto, Composed, Panel};
                !matches!(routines.sddmm, Auto | Composed | Panel)
            });
        }
        Self {
            backend,
            spmm,
            transposed,
            sddmm,
        }
    }
}
