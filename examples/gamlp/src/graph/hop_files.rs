use crate::{
    CacheError, GraphId, Interrupt,
    data::{remove_leftovers, temporary_file},
};
use memmap2::{Mmap, MmapMut};
use rayon::prelude::*;
use std::{
    fs::{self, File},
    io::{self, Read, Write},
    path::{Path, PathBuf},
    sync::Arc,
};
use tempfile::NamedTempFile;
use twox_hash::XxHash3_64;

const MAGIC: [u8; 8] = *b"GAMLPHOP";
const VERSION: u64 = 1;
/// Magic and seven numbers of eight bytes, so that what follows is aligned in the mapping.
const HEADER: usize = 64;
/// Bytes that are written between two looks for an interrupt.
const PIECE: u64 = 1 << 26;
/// Start and end of the name of a file that is being written.
const TEMPORARY: (&str, &str) = ("hop-", ".tmp");

/// What a file of a [`HopFiles`] holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HopKind {
    /// Features after so many propagations; 0: as given.
    Features(usize),
    /// Labels to learn from, after so many propagations.
    Labels(usize),
}

impl HopKind {
    fn number(self) -> u64 {
        match self {
            Self::Features(hop) => hop as u64,
            Self::Labels(hop) => 1 << 32 | hop as u64,
        }
    }
}

/// Propagated matrices of a graph in files of a folder, for graphs whose hops do not fit into memory and
/// for the next run.
///
/// A file starts with the magic `GAMLPHOP` and seven numbers of eight bytes: version; hash of the graph;
/// kind; nodes; width; hash of the content; hash of all that. Then the numbers, row by row, in the
/// byte order of the machine. Hashes are XXH3 of 64 bits. A file appears under its name only
/// when it is complete, and is never changed after that.
#[derive(Debug, Clone)]
pub struct HopFiles {
    folder: PathBuf,
    graph: u64,
}

/// A matrix in a file that is mapped into memory.
#[derive(Debug, Clone)]
pub struct MappedMatrix {
    map: Arc<Mmap>,
    width: usize,
}

/// A matrix that is being written.
pub(super) struct HopWriter {
    file: NamedTempFile,
    map: MmapMut,
    path: PathBuf,
    /// All numbers of the header but the hashes at its end.
    fields: [u64; 5],
}

impl HopFiles {
    /// The files in `folder` of a graph.
    pub fn new(folder: &Path, graph: &GraphId) -> Self {
        let mut key = graph.hash.to_ne_bytes().to_vec();
        key.push(graph.rule as u8);
        Self {
            folder: folder.to_owned(),
            graph: XxHash3_64::oneshot(&key),
        }
    }

    /// The folder.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The file of a matrix.
    pub fn path(&self, kind: HopKind) -> PathBuf {
        let (name, hop) = match kind {
            HopKind::Features(hop) => ("features", hop),
            HopKind::Labels(hop) => ("labels", hop),
        };
        let graph = self.graph;
        self.folder
            .join(format!("hops-{graph:016x}-{name}-{hop}.f32"))
    }

    /// Maps and checks a matrix; nothing if there is no file.
    ///
    /// # Errors
    ///
    /// Any [`CacheError`].
    pub fn open(
        &self,
        kind: HopKind,
        [nodes, width]: [usize; 2],
    ) -> Result<Option<MappedMatrix>, CacheError> {
        let mut file = match File::open(self.path(kind)) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let found = file.metadata()?.len();
        let expected = (HEADER + nodes * width * size_of::<f32>()) as u64;
        if found < HEADER as u64 {
            return Err(CacheError::Length { found, expected });
        }
        let mut header = [0; HEADER];
        file.read_exact(&mut header)?;
        if header[..8] != MAGIC {
            return Err(CacheError::Foreign);
        }
        let number = |index: usize| {
            let bytes = header[8 * index..8 * (index + 1)].try_into();
            u64::from_ne_bytes(bytes.expect("a number has eight bytes"))
        };
        if number(1) != VERSION {
            return Err(CacheError::Version { found: number(1) });
        }
        let hash = XxHash3_64::oneshot(&header[..HEADER - 8]);
        let damaged = |found, expected| Err(CacheError::Damaged { found, expected });
        if hash != number(7) {
            return damaged(hash, number(7));
        }
        let fields = self.fields(kind, [nodes, width]);
        if (1..6).any(|index| number(index) != fields[index - 1]) {
            return Err(CacheError::Stale);
        }
        if found != expected {
            return Err(CacheError::Length { found, expected });
        }
        let matrix = MappedMatrix::new(&file, width)?;
        let hash = XxHash3_64::oneshot(bytemuck::cast_slice(matrix.values()));
        match hash == number(6) {
            true => Ok(Some(matrix)),
            false => damaged(hash, number(6)),
        }
    }

    fn fields(&self, kind: HopKind, [nodes, width]: [usize; 2]) -> [u64; 5] {
        [
            VERSION,
            self.graph,
            kind.number(),
            nodes as u64,
            width as u64,
        ]
    }

    /// Starts matrices of zeros under other names, all at the same time; nothing if an interrupt comes.
    pub(super) fn create(
        &self,
        kinds: &[HopKind],
        shape: [usize; 2],
        interrupt: &Interrupt,
    ) -> Result<Option<Vec<HopWriter>>, CacheError> {
        fs::create_dir_all(&self.folder)?;
        remove_leftovers(&self.folder, TEMPORARY);
        let new = |&kind| {
            let fields = self.fields(kind, shape);
            HopWriter::new(&self.folder, self.path(kind), fields, interrupt)
        };
        kinds.par_iter().map(new).collect()
    }
}

impl HopWriter {
    fn new(
        folder: &Path,
        path: PathBuf,
        fields: [u64; 5],
        interrupt: &Interrupt,
    ) -> Result<Option<Self>, CacheError> {
        let mut file = temporary_file(folder, TEMPORARY.0, TEMPORARY.1)?;
        let bytes = HEADER as u64 + fields[3] * fields[4] * size_of::<f32>() as u64;
        // Written, not only reserved: a disk that is full says so here, but kills whoever writes to a
        // mapping of it.
        let mut zeros = io::repeat(0).take(bytes);
        while zeros.limit() > 0 {
            if interrupt.is_requested(0) {
                return Ok(None);
            }
            io::copy(&mut (&mut zeros).take(PIECE), file.as_file_mut())?;
        }
        // SAFETY: the file is new, has a random name, and is ours alone until it gets another one; what
        // another program does to a file of this name is out of our hands, as with any open file.
        let map = unsafe { MmapMut::map_mut(file.as_file())? };
        Ok(Some(Self {
            file,
            map,
            path,
            fields,
        }))
    }

    pub(super) fn values_mut(&mut self) -> &mut [f32] {
        bytemuck::cast_slice_mut(&mut self.map[HEADER..])
    }

    /// Gives the file its name.
    pub(super) fn finish(mut self) -> Result<MappedMatrix, CacheError> {
        let mut header = MAGIC.to_vec();
        let content = XxHash3_64::oneshot(&self.map[HEADER..]);
        let numbers = self.fields.into_iter().chain([content]);
        header.extend(numbers.flat_map(u64::to_ne_bytes));
        header.extend(XxHash3_64::oneshot(&header).to_ne_bytes());
        self.map[..HEADER].copy_from_slice(&header);
        self.map.flush()?;
        drop(self.map);
        self.file.as_file_mut().flush()?;
        self.file.as_file().sync_all()?;
        let file = self.file.persist(&self.path).map_err(|error| error.error)?;
        Ok(MappedMatrix::new(&file, self.fields[4] as usize)?)
    }

    /// Leaves the file without a name, so that it goes with the last user of the matrix.
    pub(super) fn finish_unnamed(self) -> Result<MappedMatrix, CacheError> {
        let map = self.map.make_read_only()?;
        Ok(MappedMatrix {
            map: Arc::new(map),
            width: self.fields[4] as usize,
        })
    }
}

impl MappedMatrix {
    fn new(file: &File, width: usize) -> io::Result<Self> {
        // SAFETY: the file has its final name, under which it is replaced as a whole but never
        // changed or cut by this program; another that does so breaks the contract of the cache folder.
        let map = unsafe { Mmap::map(file)? };
        Ok(Self {
            map: Arc::new(map),
            width,
        })
    }

    /// Number of columns.
    pub fn width(&self) -> usize {
        self.width
    }

    /// All numbers, row by row.
    pub fn values(&self) -> &[f32] {
        bytemuck::cast_slice(&self.map[HEADER..])
    }
}
