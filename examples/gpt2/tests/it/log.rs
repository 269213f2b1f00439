use crate::support::{finish, log_lines, tiny};
use gpt2::Outcome;

#[test]
fn the_log_tells_the_whole_run() {
    let dir = tempfile::tempdir().unwrap();
    let outcome = finish(&tiny(dir.path())).unwrap();
    let lines = log_lines(dir.path());

    let steps: Vec<usize> = lines.iter().map(|line| line.step).collect();
    assert_eq!(steps, [6, 10, 12, 18, 20, 24, 30, 40]);
    for line in &lines {
        assert_eq!(line.tokens, line.step as u64 * 4 * 16);
        assert!(line.loss > 0.0 && line.loss < 6.0, "{line:?}");
        assert!(line.lr > 0.0 && line.tokens_per_second > 0.0, "{line:?}");
        // 205 of 1024 weights in every matrix.
        assert!((line.density - 205.0 / 1024.0).abs() < 1e-9, "{line:?}");

        let update = line.step <= 30 && line.step % 6 == 0;
        assert_eq!(line.update.is_some(), update, "{line:?}");
        let evaluation = line.step % 20 == 0;
        assert_eq!(line.val_loss.is_some(), evaluation, "{line:?}");
        assert_eq!(line.perplexity, line.val_loss.map(f64::exp), "{line:?}");
    }
    assert!(
        lines
            .windows(2)
            .all(|pair| pair[0].seconds <= pair[1].seconds)
    );

    let update = lines[0].update.as_ref().unwrap();
    assert_eq!((update.layers, update.nnz), (4, 4 * 205));
    assert_eq!((update.dropped, update.grown), (4 * 62, 4 * 62));

    let Outcome::Finished { summary, .. } = outcome else {
        panic!("nothing asked to stop");
    };
    let last = lines.last().unwrap();
    assert_eq!(summary.val_loss, last.val_loss);
    assert_eq!(summary.train_loss, Some(last.loss));
    assert!(last.loss < lines[0].loss);
}
