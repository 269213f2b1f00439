//! The numbers of reports on a small model, by hand.

use burn::module::{Module, Param};
use burn::optim::{AdamConfig, GradientsParams, SgdConfig};
use burn::tensor::{Device, Tensor, TensorData};

use super::*;
use crate::nn::{NewWeights, SparseLinear, replace_weights};
use crate::ops::Routines;
use crate::pattern::Pattern;
use crate::tensor::DevicePattern;

#[derive(Module, Debug)]
struct Two {
    first: SparseLinear,
    second: SparseLinear,
}

fn layer(shape: [usize; 2], rows: &[u32], cols: &[u32], device: &Device) -> SparseLinear {
    let signed = |list: &[u32]| list.iter().map(|&i| i64::from(i)).collect::<Vec<_>>();
    let pattern = Pattern::from_coordinates(shape, &signed(rows), &signed(cols)).unwrap();
    let nnz = pattern.nnz();
    SparseLinear {
        values: Param::from_tensor(Tensor::ones([nnz], device)),
        pattern: DevicePattern::new(pattern, device),
        bias: None,
        routines: Routines::default(),
    }
}

/// Three inputs, four hidden units of which the last has no input and the third no output.
fn two(device: &Device) -> Two {
    Two {
        first: layer([4, 3], &[0, 0, 1, 2], &[0, 2, 2, 0], device),
        second: layer([2, 4], &[0, 1, 1], &[0, 1, 3], device),
    }
}

fn move_first(model: Two, flats: &[u64]) -> Two {
    let pattern = Pattern::from_sorted_flats([4, 3], flats.iter().copied()).unwrap();
    let values = TensorData::from(vec![1.0_f32; flats.len()].as_slice());
    let new = NewWeights {
        pattern: pattern.into(),
        values,
        index: Default::default(),
    };
    let weights = [("first".to_string(), new)];
    replace_weights(model, weights.into())
}

#[test]
fn a_report_by_hand() {
    let report = DensityReport::of(&two(&Device::default()));
    assert_eq!(report.step, None);
    let [first, second] = &report.layers[..] else {
        panic!("{report:?}")
    };
    assert_eq!(
        (first.name.as_str(), first.shape, first.nnz),
        ("first", [4, 3], 4)
    );
    assert_eq!(first.density, 4.0 / 12.0);
    assert_eq!(first.fan_in.histogram, [(0, 1), (1, 2), (2, 1)]);
    assert_eq!(first.fan_out.histogram, [(0, 1), (2, 2)]);
    assert_eq!((first.fan_in.dead, first.fan_out.dead), (1, 1));
    assert_eq!(second.fan_in.histogram, [(1, 1), (2, 1)]);
    assert_eq!((second.fan_in.mean, second.fan_in.cv), (1.5, 1.0 / 3.0));
    assert_eq!((second.fan_in.dead, second.fan_out.dead), (0, 1));

    assert_eq!(report.layer("second"), Some(second));
    assert_eq!(report.layer("third"), None);
    let total = &report.total;
    assert_eq!((total.size, total.nnz, total.density), (20, 7, 0.35));
    assert_eq!((total.dead_outputs, total.dead_inputs), (1, 2));
    assert_eq!(total.target_density, None);
    assert_eq!(
        (total.kept_previous, total.explored, total.functional),
        (None, None, None)
    );
}

#[test]
fn targets_are_weighted_by_size_and_only_totalled_if_all_are_known() {
    let model = two(&Device::default());
    let mut config = ReportConfig {
        targets: [("first".to_string(), 0.5)].into(),
        ..ReportConfig::default()
    };
    let report = config.report(&model, None).unwrap();
    assert_eq!(report.layers[0].target_density, Some(0.5));
    assert_eq!(report.layers[1].target_density, None);
    assert_eq!(report.total.target_density, None);

    config.targets.insert("second".into(), 0.25);
    let total = config.report(&model, None).unwrap().total;
    assert_eq!(total.target_density, Some((0.5 * 12.0 + 0.25 * 8.0) / 20.0));
}

#[test]
fn indices_are_those_of_a_trained_layer_and_moments_those_of_the_optimizer() {
    let device = Device::default().autodiff();
    let mut model = two(&device);
    let mut adam = AdamConfig::new().init();
    let unstepped = ReportConfig::default().report(&model, Some(&adam)).unwrap();
    assert_eq!(unstepped.total.memory.moments, 0);

    let x = Tensor::<2>::ones([5, 3], &device).require_grad();
    let y = model.second.forward(model.first.forward(x));
    let grads = GradientsParams::from_grads(y.mean().backward(), &model);
    model = adam.step(1e-3, model, grads);

    let report = ReportConfig::default().report(&model, Some(&adam)).unwrap();
    for (layer, report) in [&model.first, &model.second].iter().zip(&report.layers) {
        assert_eq!(report.memory.indices, layer.pattern.index_bytes() as u64);
        assert_eq!(report.memory.values, 4 * layer.nnz() as u64);
        assert_eq!(report.memory.moments, 8 * layer.nnz() as u64);
        assert_eq!(report.memory.dense_values, 4 * report.size());
        assert_eq!(report.memory.dense_moments, 8 * report.size());
    }
    let memory = report.total.memory;
    assert_eq!((memory.values, memory.moments), (28, 56));
    assert_eq!((memory.dense_values, memory.dense_moments), (80, 160));
    assert_eq!(memory.dense_total(), 240);
    assert_eq!(memory.ratio(), (84 + memory.indices) as f64 / 240.0);
}

#[test]
fn a_log_compares_with_the_report_before_and_the_first() {
    let mut model = two(&Device::default());
    let mut log = TopologyLog::default();
    let start = log.record(0, &model, None).unwrap();
    assert_eq!(start.total.kept_previous, Some(1.0));
    assert_eq!(start.total.explored, Some(0.35));

    // From 0, 2, 5, 6: two leave.
    model = move_first(model, &[0, 1, 4, 6]);
    let report = log.record(10, &model, None).unwrap();
    assert_eq!(report.step, Some(10));
    let history = LayerHistory {
        kept_previous: 2,
        previous: 4,
        kept_initial: 2,
        initial: 4,
        explored: 6,
    };
    assert_eq!(report.layers[0].history, Some(history));
    assert_eq!(report.total.kept_previous, Some(5.0 / 7.0));
    assert_eq!(report.total.explored, Some(9.0 / 20.0));

    // One of the first returns, which is not explored twice.
    model = move_first(model, &[0, 2, 4, 6]);
    let report = log.record(20, &model, None).unwrap();
    let history = LayerHistory {
        kept_previous: 3,
        previous: 4,
        kept_initial: 3,
        initial: 4,
        explored: 6,
    };
    assert_eq!(report.layers[0].history, Some(history));
    assert_eq!(report.layers[1].history.unwrap().share_of_previous(), 1.0);
    assert_eq!(log.reports().len(), 3);
}

#[test]
fn functional_connections_are_those_on_a_path() {
    let model = two(&Device::default());
    let report = ReportConfig::chain(&model)
        .unwrap()
        .report(&model, None)
        .unwrap();
    // Hidden units 0 and 1 have inputs and outputs, 2 has no output, 3 no input.
    assert_eq!(report.layers[0].functional, Some(3));
    assert_eq!(report.layers[1].functional, Some(2));
    assert_eq!(report.total.functional, Some(5));
    assert!(report.to_string().contains("functional"), "{report}");

    let config = ReportConfig::chain(&model.first).unwrap();
    assert!(
        config.report(&model, None).is_err(),
        "the layer has another name here"
    );
}

#[test]
fn a_layer_of_another_shape_starts_anew() {
    let device = Device::default();
    let mut log = TopologyLog::default();
    log.record(0, &two(&device), None).unwrap();
    let other = Two {
        first: layer([4, 2], &[0], &[1], &device),
        second: layer([2, 4], &[0], &[0], &device),
    };
    let report = log.record(1, &other, None).unwrap();
    assert_eq!(report.layers[0].history.unwrap().explored, 1);
    assert_eq!(report.layers[1].history.unwrap().explored, 3);
    assert_eq!(report.layers[1].history.unwrap().kept_previous, 1);
}

#[test]
fn every_line_of_csv_has_every_column() {
    let mut model = two(&Device::default());
    let mut log = TopologyLog::default();
    log.record(0, &model, None).unwrap();
    model = move_first(model, &[0, 1, 4, 6]);
    log.record(10, &model, None).unwrap();
    let csv = log.to_csv();
    let lines: Vec<Vec<&str>> = csv.lines().map(|line| line.split(',').collect()).collect();
    assert_eq!(lines.len(), 1 + 2 * 3);
    assert!(
        lines.iter().all(|line| line.len() == lines[0].len()),
        "{csv}"
    );

    let cell = |line: usize, column: &str| {
        let index = lines[0].iter().position(|&name| name == column);
        lines[line][index.unwrap_or_else(|| panic!("no column {column}"))]
    };
    assert_eq!((cell(4, "step"), cell(4, "layer")), ("10", "first"));
    assert_eq!(
        (cell(4, "outputs"), cell(4, "inputs"), cell(4, "nnz")),
        ("4", "3", "4")
    );
    assert_eq!(cell(4, "kept_previous"), "0.5");
    assert_eq!((cell(1, "dead_outputs"), cell(1, "fan_in_max")), ("1", "2"));
    assert_eq!(
        (cell(1, "dead_inputs"), cell(1, "fan_out_mean")),
        ("1", (4.0_f64 / 3.0).to_string().as_str())
    );
    assert_eq!(
        (cell(6, "layer"), cell(6, "nnz"), cell(6, "explored")),
        ("total", "7", "0.45")
    );
    assert_eq!((cell(6, "dead_inputs"), cell(6, "fan_in_max")), ("2", ""));
    assert_eq!(
        (cell(3, "bytes_values"), cell(3, "bytes_dense_values")),
        ("28", "80")
    );
}

#[test]
fn a_report_survives_json_and_a_log_is_its_reports() {
    let mut log = TopologyLog::default();
    let sgd = SgdConfig::new().init();
    log.record(7, &two(&Device::default()), Some(&sgd)).unwrap();
    let text = serde_json::to_string(&log).unwrap();
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(
        value["reports"][0]["layers"][0]["fan_in"]["histogram"][2][0],
        2
    );
    let report: DensityReport = serde_json::from_value(value["reports"][0].clone()).unwrap();
    assert_eq!(&report, &log.reports()[0]);
}

#[test]
fn the_table_shows_what_is_known_and_nothing_else() {
    let model = two(&Device::default());
    let table = DensityReport::of(&model).to_string();
    let lines: Vec<&str> = table.lines().collect();
    assert_eq!(lines.len(), 4, "{table}");
    assert!(
        lines[0].starts_with("layer   out x in  nnz  density  dead out  dead in"),
        "{table}"
    );
    assert!(
        lines[1].starts_with("first      4 x 3    4   33.3 %         1        1"),
        "{table}"
    );
    assert!(
        lines[3].starts_with("total               7   35.0 %         1        2"),
        "{table}"
    );
    assert!(lines[2].contains("1.5 cv 0.33"), "{table}");
    assert!(
        !lines[0].contains("target") && !lines[0].contains("explored"),
        "{table}"
    );

    let mut log = TopologyLog::default();
    let table = log.record(3, &model, None).unwrap().to_string();
    assert!(table.starts_with("step 3\nlayer"), "{table}");
    assert!(table.contains("explored"), "{table}");
}
#[test]
fn a_model_without_sparse_layers_has_an_empty_report() {
    let linear = burn::nn::LinearConfig::new(2, 2).init(&Device::default());
    let report = DensityReport::of(&linear);
    assert!(report.layers.is_empty());
    assert_eq!(report.total, TotalReport::default());
    assert_eq!(report.to_csv().lines().count(), 2);
    assert!(report.to_string().contains("total"));
}
