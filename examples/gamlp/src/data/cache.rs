use super::{
    DataError, EdgeRule, FeatureMatrix, GraphData, Labels, NodeSplit, ReadOptions,
    temporary::{remove_leftovers, temporary_file},
};
use std::{
    fs::{self, File},
    hash::Hasher,
    io::{self, BufReader, BufWriter, Read, Seek, Write},
    path::{Path, PathBuf},
};
use thiserror::Error;
use twox_hash::XxHash3_64;

const MAGIC: [u8; 8] = *b"GAMLPGRF";
const VERSION: u64 = 1;
/// Numbers of eight bytes in the header.
const FIELDS: usize = 12;
/// Start and end of the name of a cache that is being written.
const TEMPORARY: (&str, &str) = ("graph-", ".tmp");

/// A cache that cannot be used or written.
#[derive(Debug, Error)]
pub enum CacheError {
    /// It cannot be read or written.
    #[error("the cache cannot be read or written: {0}")]
    Io(#[from] io::Error),
    /// It is another kind of file.
    #[error("the file does not start as a cache of a graph does")]
    Foreign,
    /// Another version of this program, or a machine with another byte order, wrote it.
    #[error("the version of the cache is {found}, not {VERSION}")]
    Version {
        /// The version in the file.
        found: u64,
    },
    /// The cache is shorter or longer than its header says.
    #[error("the cache has {found} bytes, but must have {expected}")]
    Length {
        /// The length of the file.
        found: u64,
        /// The length that the header says.
        expected: u64,
    },
    /// Its header or its content is damaged.
    #[error("the cache is damaged: its hash is {found:016x}, not {expected:016x}")]
    Damaged {
        /// The hash of what was read.
        found: u64,
        /// The hash in the file.
        expected: u64,
    },
    /// It holds another graph.
    #[error("the cache holds another graph, or this one before it changed")]
    Stale,
}

/// What a cache was made from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SourceId(u64);

impl SourceId {
    /// Hashes names and contents of files, and how they are read.
    ///
    /// # Errors
    ///
    /// [`DataError::Read`] or [`DataError::Missing`] for the first file that cannot be read.
    pub fn of(files: &[PathBuf], options: &ReadOptions) -> Result<Self, DataError> {
        let mut hasher = XxHash3_64::new();
        hasher.write(&[rule_number(options.rule) as u8]);
        let mut buffer = vec![0; 1 << 20];
        for path in files {
            let name = path.file_name().unwrap_or_default();
            hasher.write(name.as_encoded_bytes());
            let mut file = File::open(path).map_err(DataError::read(path))?;
            let mut length = 0_u64;
            loop {
                let count = file.read(&mut buffer).map_err(DataError::read(path))?;
                if count == 0 {
                    break;
                }
                length += count as u64;
                hasher.write(&buffer[..count]);
            }
            hasher.write(&length.to_le_bytes());
        }
        Ok(Self(hasher.finish()))
    }
}

/// A graph as it was read, kept in one file.
///
/// The file starts with the magic `GAMLPGRF` and twelve numbers of eight bytes: version; hash of the
/// sources; edge rule; numbers of nodes, edges, features of a node, and nodes of the three splits; two of
/// zero; hash of the content. The hash of all that follows. Then edges, features, labels and splits,
/// in words of four bytes in the byte order of the machine. Hashes are XXH3 of 64 bits.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GraphCache {
    path: PathBuf,
    source: SourceId,
}

type Header = [u64; FIELDS];
const HEADER: usize = 8 + 8 * FIELDS + 8;

impl GraphCache {
    /// The cache in `folder` of what `source` names.
    pub fn new(folder: &Path, source: SourceId) -> Self {
        Self {
            path: folder.join(format!("graph-{:016x}.cache", source.0)),
            source,
        }
    }

    /// The file.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Reads and checks the whole cache; nothing if there is no file. Features that were not stored
    /// are of width 0.
    ///
    /// # Errors
    ///
    /// Any [`CacheError`].
    pub fn open(&self) -> Result<Option<GraphData>, CacheError> {
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let found = file.metadata()?.len();
        if found < HEADER as u64 {
            let expected = HEADER as u64;
            return Err(CacheError::Length { found, expected });
        }
        let mut file = BufReader::with_capacity(1 << 20, file);
        let mut bytes = [0; HEADER];
        file.read_exact(&mut bytes)?;
        let header = self.check(&bytes, found)?;
        let [_, _, rule, nodes, edges, width, train, valid, test, ..] = header.map(|n| n as usize);

        let mut hasher = XxHash3_64::new();
        let mut edge_list = vec![[0_u32; 2]; edges];
        let mut features = vec![0_f32; nodes * width];
        let mut lists = [nodes, train, valid, test].map(|length| vec![0_u32; length]);
        fill(
            &mut file,
            &mut hasher,
            bytemuck::cast_slice_mut(&mut edge_list),
        )?;
        fill(
            &mut file,
            &mut hasher,
            bytemuck::cast_slice_mut(&mut features),
        )?;
        for list in &mut lists {
            fill(&mut file, &mut hasher, bytemuck::cast_slice_mut(list))?;
        }
        let (found, expected) = (hasher.finish(), header[FIELDS - 1]);
        if found != expected {
            return Err(CacheError::Damaged { found, expected });
        }
        let [labels, train, valid, test] = lists;
        Ok(Some(GraphData {
            edges: edge_list,
            rule: match rule {
                0 => EdgeRule::AddReverse,
                _ => EdgeRule::AsStored,
            },
            features: FeatureMatrix {
                width,
                values: features,
            },
            labels: Labels::from_stored(labels),
            split: NodeSplit { train, valid, test },
        }))
    }

    fn check(&self, bytes: &[u8; HEADER], length: u64) -> Result<Header, CacheError> {
        let (magic, rest) = bytes.split_at(8);
        if magic != MAGIC {
            return Err(CacheError::Foreign);
        }
        let mut numbers = rest.chunks_exact(8).map(|number| {
            let number = number.try_into().expect("chunks of eight bytes");
            u64::from_ne_bytes(number)
        });
        let header: Header = core::array::from_fn(|_| numbers.next().expect("the header has all"));
        let expected = numbers.next().expect("the header has a hash");
        if header[0] != VERSION {
            return Err(CacheError::Version { found: header[0] });
        }
        let found = XxHash3_64::oneshot(&bytes[..HEADER - 8]);
        if found != expected {
            return Err(CacheError::Damaged { found, expected });
        }
        if header[1] != self.source.0 {
            return Err(CacheError::Stale);
        }
        let [_, _, _, nodes, edges, width, train, valid, test, ..] = header.map(u128::from);
        let words = 2 * edges + nodes * width + nodes + train + valid + test;
        let expected = HEADER as u128 + 4 * words;
        match u128::from(length) == expected {
            true => Ok(header),
            false => Err(CacheError::Length {
                found: length,
                expected: u64::try_from(expected).unwrap_or(u64::MAX),
            }),
        }
    }

    /// Writes the cache to a temporary file, and puts that in its place in one step.
    ///
    /// # Errors
    ///
    /// An error if the folder or the file cannot be written; a cache that was there stays.
    pub fn write(&self, data: &GraphData) -> io::Result<()> {
        let folder = self.path.parent().unwrap_or(Path::new("."));
        fs::create_dir_all(folder)?;
        remove_leftovers(folder, TEMPORARY);
        let temporary = temporary_file(folder, TEMPORARY.0, TEMPORARY.1)?;
        let mut file = BufWriter::with_capacity(1 << 20, temporary);
        file.write_all(&[0; HEADER])?;
        let mut hasher = XxHash3_64::new();
        let split = &data.split;
        let parts: [&[u8]; 6] = [
            bytemuck::cast_slice(&data.edges),
            bytemuck::cast_slice(&data.features.values),
            bytemuck::cast_slice(data.labels.stored()),
            bytemuck::cast_slice(&split.train),
            bytemuck::cast_slice(&split.valid),
            bytemuck::cast_slice(&split.test),
        ];
        for part in parts {
            hasher.write(part);
            file.write_all(part)?;
        }
        let sizes = [
            data.nodes(),
            data.edges.len(),
            data.features.width,
            split.train.len(),
            split.valid.len(),
            split.test.len(),
        ];
        let mut header = [0; FIELDS];
        header[..3].copy_from_slice(&[VERSION, self.source.0, rule_number(data.rule)]);
        header[3..9].copy_from_slice(&sizes.map(|size| size as u64));
        header[FIELDS - 1] = hasher.finish();
        let mut bytes = MAGIC.to_vec();
        bytes.extend(header.iter().flat_map(|number| number.to_ne_bytes()));
        bytes.extend(XxHash3_64::oneshot(&bytes).to_ne_bytes());

        let mut file = file.into_inner().map_err(|error| error.into_error())?;
        file.rewind()?;
        file.write_all(&bytes)?;
        file.as_file().sync_all()?;
        file.persist(&self.path).map_err(|error| error.error)?;
        Ok(())
    }
}

fn rule_number(rule: EdgeRule) -> u64 {
    match rule {
        EdgeRule::AddReverse => 0,
        EdgeRule::AsStored => 1,
    }
}

fn fill(file: &mut impl Read, hasher: &mut XxHash3_64, bytes: &mut [u8]) -> io::Result<()> {
    file.read_exact(bytes)?;
    hasher.write(bytes);
    Ok(())
}
