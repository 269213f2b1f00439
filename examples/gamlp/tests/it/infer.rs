//! Inference: of models, and by the command.

use crate::support::{device, finish, task, tiny};
use burn::tensor::Tensor;
use gamlp::{
    Args, GamlpError, GraphSource, InferArgs, InferReport, Interrupt, Part, Predictor,
    TrainOptions, WeightMode,
};
use std::path::Path;

fn options(mode: WeightMode) -> TrainOptions {
    let args = Args {
        mode: Some(mode),
        ..tiny(Path::new("unused"))
    };
    args.new_options()
}

#[test]
fn captured_and_eager_passes_give_the_logits_of_the_model() {
    for mode in [WeightMode::Dense, WeightMode::Masked, WeightMode::Sparse] {
        let options = options(mode);
        let task = task(&options);
        let model = options.fitted_to(&task).model.init(3, &device());
        let layout = task.inputs().layout();
        let predictor = |record| Predictor::of_model(&model, layout, 2, record, &device());
        let (mut eager, mut captured) = (predictor(false), predictor(true));
        // The same predictor with other inputs: a replay must not keep the old ones.
        for nodes in [[0, 7], [599, 3], [0, 7]] {
            let batch = task.batch(&nodes, &device());
            let logits = model.forward(batch.hops, batch.label_embedding);
            let expected: Vec<f32> = logits.into_data().iter::<f32>().collect();
            let rows = task.packed(&nodes);
            assert_eq!(eager.predict(&rows), expected, "{mode}");
            assert_eq!(captured.predict(&rows), expected, "{mode}");
        }
    }
}

#[test]
fn an_input_written_before_is_used_again() {
    let double = |x: Tensor<2>| x * 2.0;
    for record in [false, true] {
        let mut predictor = Predictor::new(Tensor::ones([1, 2], &device()), record, double);
        let read = |predictor: &mut Predictor| -> Vec<f32> {
            predictor.forward().into_data().iter::<f32>().collect()
        };
        assert_eq!(read(&mut predictor), [2.0, 2.0]);
        predictor.write(&[3.0, -1.0]);
        assert_eq!(read(&mut predictor), [6.0, -2.0]);
        assert_eq!(read(&mut predictor), [6.0, -2.0]);
    }
}

fn quick(run: Option<&Path>) -> InferArgs {
    InferArgs {
        run: run.map(Into::into),
        samples: Some(5),
        warmup: Some(1),
        batch: Some(16),
        quiet: true,
        #[cfg(feature = "flex")]
        device: Some(gamlp::DeviceChoice::Flex),
        ..InferArgs::default()
    }
}

fn infer(args: &InferArgs) -> Result<InferReport, GamlpError> {
    gamlp::infer(args)
}

#[test]
fn a_run_is_judged_by_its_best_model() {
    let dir = tempfile::tempdir().unwrap();
    let args = Args {
        epochs: vec![4, 3],
        threshold: Some(0.6),
        ..tiny(dir.path())
    };
    let gamlp::Outcome::Finished { summary, dir: out } = finish(&args).unwrap() else {
        panic!("nothing asked to stop");
    };
    let best = summary.best[1].accuracy;
    for (nodes, expected) in [
        (Part::Train, best.train),
        (Part::Valid, Some(best.valid)),
        (Part::Test, best.test),
    ] {
        let report = infer(&InferArgs {
            nodes: Some(nodes),
            ..quick(Some(&out))
        });
        assert_eq!(report.unwrap().accuracy, expected);
    }
}

#[test]
fn single_nodes_are_classified_as_the_model_does() {
    let dir = tempfile::tempdir().unwrap();
    let args = Args {
        epochs: vec![4],
        ..tiny(dir.path())
    };
    let gamlp::Outcome::Finished { dir: out, .. } = finish(&args).unwrap() else {
        panic!("nothing asked to stop");
    };
    let data = GraphSource::Shipped.load(None).unwrap().0;
    let classify = |nodes: Vec<u32>| {
        gamlp::classify(&InferArgs {
            classify: nodes,
            ..quick(Some(&out))
        })
    };
    let test = data.split.test.clone();
    let found = classify(test.clone()).unwrap().0;
    let nodes: Vec<_> = found.iter().map(|node| node.node).collect();
    assert_eq!(nodes, test);
    let right = found
        .iter()
        .filter(|node| node.label == Some(node.class as u32));
    let share = right.count() as f64 / test.len() as f64;
    let report = infer(&quick(Some(&out))).unwrap();
    assert_eq!(report.accuracy, Some(share));
    assert!(
        found
            .iter()
            .all(|node| data.labels.get(node.node) == node.label)
    );
    let least = 1.0 / data.labels.classes() as f32;
    assert!(
        found
            .iter()
            .all(|node| (least..=1.0).contains(&node.probability))
    );

    let error = classify(vec![3, 600]).unwrap_err();
    assert_eq!(
        error.to_string(),
        "--classify is 600, but must be between 0 and 599: the graph has 600 nodes"
    );
    assert_eq!(error.exit_code(), 2);
    let without = gamlp::classify(&InferArgs {
        classify: vec![3, 4],
        ..quick(None)
    });
    let message = without.unwrap_err().to_string();
    assert!(
        message.starts_with("--classify is 3,4, but must be given with --run"),
        "{message}"
    );
}

#[test]
fn a_report_has_every_part_batch_and_run() {
    let report = infer(&quick(None)).unwrap();
    let rows: Vec<_> = report
        .rows
        .iter()
        .map(|row| (row.part, row.batch, row.captured, row.runs))
        .collect();
    assert_eq!(
        rows,
        [
            ("model", 1, false, 5),
            ("head", 1, false, 5),
            ("model", 1, true, 5),
            ("head", 1, true, 5),
            ("model", 16, false, 5),
            ("head", 16, false, 5),
            ("model", 16, true, 5),
            ("head", 16, true, 5),
        ]
    );
    let json = report.to_json();
    assert_eq!(json["mode"], "sparse");
    assert_eq!(json["accuracy"], serde_json::Value::Null);
    assert!(json["rows"][0]["nodes_per_second"].as_f64().unwrap() > 0.0);
    assert!(json["rows"][0]["forward"]["median_us"].as_f64().unwrap() > 0.0);

    let args = InferArgs {
        no_capture: true,
        head: Some(0),
        batch: Some(1),
        ..quick(None)
    };
    assert_eq!(infer(&args).unwrap().rows.len(), 1);
}

#[test]
fn what_cannot_be_measured_is_said() {
    let message = |args: &InferArgs| infer(args).unwrap_err().to_string();
    let dir = tempfile::tempdir().unwrap();
    let absent = message(&quick(Some(dir.path())));
    assert!(absent.contains("there is no run in "), "{absent}");

    let args = InferArgs {
        samples: Some(0),
        ..quick(None)
    };
    assert_eq!(
        message(&args),
        "--samples is 0, but must be between 1 and 1000000000"
    );
    let args = InferArgs {
        mode: Some(WeightMode::Dense),
        sparsity: Some(0.5),
        ..quick(None)
    };
    assert_eq!(
        message(&args),
        "--sparsity is 0.5, but must be left out with --mode dense, where all weights exist"
    );

    let run = Args {
        eval_every: Some(0),
        ..tiny(dir.path())
    };
    gamlp::run(&run, &Interrupt::after_step(2)).unwrap();
    let early = message(&quick(run.out.as_deref()));
    assert!(early.contains("has not been evaluated yet"), "{early}");

    finish(&Args {
        resume: true,
        ..run.clone()
    })
    .unwrap();
    let mut args = quick(run.out.as_deref());
    args.graph.synthetic = Some("600,2400,16,4".parse().unwrap());
    let other = message(&args);
    assert!(
        other.contains("the graph is synthetic 600,2400,16,4"),
        "{other}"
    );
}
