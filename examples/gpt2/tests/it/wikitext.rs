//! Published counts of the validation split of WikiText-103.

use gpt2::{EvalMethod, EvalPlan, TextLoader, TextSource, Tokenizer};
use std::{env, path::PathBuf};

/// The file; says so and returns nothing where it is absent.
fn file() -> Option<PathBuf> {
    let data = env::var_os("SNACK_DATA").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data")),
        PathBuf::from,
    );
    let file = data.join("text/wikitext103-v1.valid.tokens.gz");
    if file.is_file() {
        return Some(file);
    }
    println!(
        "skipped: no file {} (set SNACK_DATA to the folder that holds text/)",
        file.display()
    );
    None
}

#[test]
fn words_are_counted_as_published() {
    let Some(file) = file() else { return };
    let source = TextSource::find(&[file]).unwrap();

    assert_eq!(source.count_words().unwrap(), 217_646);
}

#[test]
fn tokens_equal_those_of_the_whole_text() {
    let Some(file) = file() else { return };
    let paths = [file];
    let loader = TextLoader::default();
    let (bytes, _) = loader.load(&paths, Tokenizer::Bytes).unwrap();
    let (text, _) = loader.load(&paths, Tokenizer::Gpt2).unwrap();
    assert_eq!(text.id().tokens, 249_735);
    assert_eq!(
        (text.id().bytes, text.id().hash),
        (bytes.id().bytes, bytes.id().hash)
    );

    let content = Tokenizer::Bytes.decode(&bytes.tokens().to_vec()).unwrap();
    let whole = Tokenizer::Gpt2.encode(&content).unwrap();
    assert!(text.tokens().to_vec() == whole);
    assert!(Tokenizer::Gpt2.decode(&whole).unwrap() == content);
}

#[test]
fn plans_score_the_split_as_the_scripts_do() {
    let scored = |method| EvalPlan::new(method, 249_735).unwrap().scored();
    let strided = |stride| EvalMethod::Strided {
        context: 1024,
        stride,
    };

    assert_eq!(scored(EvalMethod::Block { size: 1024 }), 243 * 1023);
    assert_eq!(scored(strided(512)), 249_734);
    // 243 whole windows, and 903 tokens in the last.
    assert_eq!(scored(strided(1024)), 243 * 1023 + 902);
}
