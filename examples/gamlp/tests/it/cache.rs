use crate::folder::Files;
use gamlp::{CacheError, EdgeRule, FeatureSource, GraphCache, GraphFolder, ReadOptions, SourceId};
use std::{
    fs::{self, File},
    path::PathBuf,
    time::{Duration, SystemTime},
};

#[test]
fn a_graph_survives_the_round_trip() {
    let folder = Files::new().write();
    let expected = folder.read().unwrap();
    let caches = folder.path().join("new/caches");
    let graph = GraphFolder::open(folder.path(), ReadOptions::default()).unwrap();
    for _ in 0..2 {
        let (data, reason) = graph.read_cached(&caches).unwrap();
        assert_eq!(data, expected);
        assert!(reason.is_none());
    }
    let files: Vec<_> = fs::read_dir(&caches).unwrap().collect();
    assert_eq!(files.len(), 1);

    // What is read the second time is the cache.
    let source = SourceId::of(&graph.files(), &ReadOptions::default()).unwrap();
    let cache = GraphCache::new(&caches, source);
    let mut other = expected.clone();
    other.edges[0] = [3, 3];
    cache.write(&other).unwrap();
    assert_eq!(graph.read_cached(&caches).unwrap().0, other);
}

#[test]
fn features_that_are_made_are_not_stored() {
    let folder = Files::new().write();
    let options = ReadOptions {
        features: FeatureSource::OneHot,
        ..ReadOptions::default()
    };
    let graph = GraphFolder::open(folder.path(), options).unwrap();
    let caches = folder.path().join("caches");
    for _ in 0..2 {
        let (data, _) = graph.read_cached(&caches).unwrap();
        assert_eq!(data.features.width, 5);
    }
}

#[test]
fn a_change_of_files_or_options_is_another_cache() {
    let options = ReadOptions::default();
    let id = |files: Files, options: &ReadOptions| {
        let folder = files.write();
        let graph = GraphFolder::open(folder.path(), options.clone()).unwrap();
        SourceId::of(&graph.files(), options).unwrap()
    };
    let first = id(Files::new(), &options);
    assert_eq!(id(Files::new(), &options), first);
    assert_ne!(
        id(Files::new().with("split/random/test", "4\n1\n"), &options),
        first
    );
    let stored = ReadOptions {
        rule: EdgeRule::AsStored,
        ..options
    };
    assert_ne!(id(Files::new(), &stored), first);
}

struct Written {
    folder: crate::folder::Folder,
    graph: GraphFolder,
    cache: GraphCache,
}

fn written() -> Written {
    let folder = Files::new().write();
    let graph = GraphFolder::open(folder.path(), ReadOptions::default()).unwrap();
    let source = SourceId::of(&graph.files(), &ReadOptions::default()).unwrap();
    let cache = GraphCache::new(&folder.path().join("caches"), source);
    cache.write(&folder.read().unwrap()).unwrap();
    Written {
        folder,
        graph,
        cache,
    }
}

#[test]
fn every_cut_and_every_changed_byte_is_found() {
    let Written { cache, .. } = &written();
    let whole = fs::read(cache.path()).unwrap();
    for cut in 0..whole.len() {
        fs::write(cache.path(), &whole[..cut]).unwrap();
        assert!(cache.open().is_err(), "{cut} bytes");
    }
    for index in 0..whole.len() {
        let mut damaged = whole.clone();
        damaged[index] ^= 1;
        fs::write(cache.path(), damaged).unwrap();
        assert!(cache.open().is_err(), "byte {index}");
    }
    fs::write(cache.path(), [&whole[..], &[0]].concat()).unwrap();
    assert!(matches!(cache.open(), Err(CacheError::Length { .. })));
    fs::write(cache.path(), &whole).unwrap();
    assert!(cache.open().unwrap().is_some());
}

#[test]
fn a_damaged_cache_is_told_and_replaced() {
    let Written {
        folder,
        graph,
        cache,
    } = &written();
    fs::write(
        cache.path(),
        "not a cache, but long enough for the header of one".repeat(4),
    )
    .unwrap();
    let caches = cache.path().parent().unwrap();
    let (data, reason) = graph.read_cached(caches).unwrap();
    assert_eq!(data, folder.read().unwrap());
    assert!(matches!(reason, Some(CacheError::Foreign)));
    assert!(graph.read_cached(caches).unwrap().1.is_none());
}

/// The graph is read all the same.
#[test]
fn a_cache_that_cannot_be_written_is_told() {
    let Written { folder, graph, .. } = &written();
    let file: PathBuf = folder.path().join("file");
    fs::write(&file, "x").unwrap();
    let (data, reason) = graph.read_cached(&file.join("caches")).unwrap();
    assert_eq!(data.nodes(), 5);
    assert!(matches!(reason, Some(CacheError::Io(_))));
}

#[test]
fn temporary_files_of_killed_runs_go() {
    let Written { folder, cache, .. } = &written();
    let caches = cache.path().parent().unwrap();
    let old = SystemTime::now() - Duration::from_secs(60);
    for name in ["graph-old.tmp", "notes.tmp", "graph-new.tmp"] {
        let file = File::create(caches.join(name)).unwrap();
        if name != "graph-new.tmp" {
            file.set_modified(old).unwrap();
        }
    }
    cache.write(&folder.read().unwrap()).unwrap();
    let left = |name: &str| caches.join(name).exists();
    assert!(!left("graph-old.tmp"));
    assert!(left("notes.tmp") && left("graph-new.tmp"));
}
