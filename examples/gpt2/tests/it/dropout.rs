//! Dropout of embeddings, attention weights and residual branches.

use crate::support::{device, random_stream};
use burn::tensor::{Device, Distribution, Int, Tensor};
use gpt2::{Gpt2, Gpt2Config};

/// What the average over many draws may differ by, as a share; without the correction for what is dropped
/// it would be 0.3.
const TOLERANCE: f64 = 0.05;
const DRAWS: usize = 2000;

/// A model that drops three tenths of the embeddings, of the attention weights or of the residual branches.
fn with_dropout(index: usize, device: &Device) -> Gpt2 {
    let mut shares = [0.0; 3];
    shares[index] = 0.3;
    Gpt2Config::new(2, 16, 2, 6)
        .with_vocabulary(20)
        .with_dropout(shares[0])
        .with_attention_dropout(Some(shares[1]))
        .with_residual_dropout(Some(shares[2]))
        .init(1, device)
}

fn without_dropout(device: &Device) -> Gpt2 {
    Gpt2Config::new(2, 16, 2, 6)
        .with_vocabulary(20)
        .init(1, device)
}

fn tokens(rows: usize, device: &Device) -> Tensor<2, Int> {
    let row = Tensor::<1, Int>::from_ints([3, 1, 4, 1, 5, 9], device);
    row.unsqueeze().repeat_dim(0, rows)
}

/// The norm of the difference of the average over the first axis and `expected`, over that of `expected`.
fn share_of_difference(drawn: Tensor<3>, expected: Tensor<3>) -> f64 {
    let norm = |x: Tensor<3>| f64::from(x.square().sum().into_scalar::<f32>()).sqrt();
    let [_, tokens, width] = drawn.dims();
    assert_eq!(expected.dims(), [1, tokens, width]);
    norm(drawn.mean_dim(0) - expected.clone()) / norm(expected)
}

#[test]
fn training_draws_what_it_drops_and_evaluation_drops_nothing() {
    let _stream = random_stream();
    let loss = |model: &Gpt2, device: &Device| {
        let tokens = tokens(2, device);
        model.loss(tokens.clone(), tokens).into_scalar::<f32>()
    };
    let (plain, tracked) = (device(), device().autodiff());
    for index in 0..3 {
        tracked.seed(7);
        let model = with_dropout(index, &tracked);
        let drawn = [loss(&model, &tracked), loss(&model, &tracked)];
        let without = loss(&without_dropout(&tracked), &tracked);
        assert!(drawn[0] != drawn[1], "dropout {index}");
        assert!(!drawn.contains(&without), "dropout {index}");
        tracked.seed(7);
        assert_eq!(loss(&model, &tracked), drawn[0], "dropout {index}");

        let evaluated = loss(&with_dropout(index, &plain), &plain);
        assert_eq!(evaluated, loss(&without_dropout(&plain), &plain));
    }
}

#[test]
fn what_is_left_makes_up_for_what_is_dropped() {
    let _stream = random_stream();
    let (plain, tracked) = (device(), device().autodiff());
    tracked.seed(11);
    let embedded = |model: Gpt2, rows, device: &Device| {
        let states = model.hidden_states(tokens(rows, device));
        states.into_iter().next().unwrap()
    };
    let drawn = embedded(with_dropout(0, &tracked), DRAWS, &tracked).inner();
    let expected = embedded(without_dropout(&plain), 1, &plain);
    let zeros = drawn.clone().equal_elem(0.0).float().mean();
    let zeros = zeros.into_scalar::<f32>();
    assert!((zeros - 0.3).abs() < 0.01, "{zeros}");
    let difference = share_of_difference(drawn, expected);
    assert!(difference < TOLERANCE, "embeddings: {difference}");

    let x = Tensor::<3>::random([1, 6, 16], Distribution::Normal(0.0, 1.0), &plain);
    let expected = without_dropout(&plain).h[0].attn.forward(x.clone());
    for index in [1, 2] {
        let model = with_dropout(index, &tracked);
        let copies = Tensor::from_inner(x.clone().repeat_dim(0, DRAWS));
        let drawn = model.h[0].attn.forward(copies).inner();
        let difference = share_of_difference(drawn, expected.clone());
        assert!(difference < TOLERANCE, "dropout {index}: {difference}");
        assert!(difference > 0.0, "dropout {index}");
    }
}
