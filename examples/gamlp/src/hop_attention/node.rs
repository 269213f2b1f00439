//! The scores and shares of one node, on the host.

use crate::ScoreActivation;

/// Scores of the hops of a node, and what they are made of.
pub(super) struct Node<'a> {
    /// What the hops are worth to those behind them, `w1 . z`.
    pub before: Vec<f32>,
    /// The factors of the shares, if any.
    pub factors: Option<&'a [f32]>,
    activation: ScoreActivation,
    scores: Vec<f32>,
}

/// Gradients of what scores are made of: of `w1 . z` and of `w2 . z` of every hop.
pub(super) struct NodeGradient {
    pub before: Vec<f32>,
    pub own: Vec<f32>,
}

impl<'a> Node<'a> {
    /// The node whose hops have these products `w1 . z`, and `w2 . z` plus bias.
    pub fn new(
        before: Vec<f32>,
        own: &[f32],
        factors: Option<&'a [f32]>,
        activation: ScoreActivation,
    ) -> Self {
        let mut node = Self {
            scores: Vec::with_capacity(own.len()),
            before,
            factors,
            activation,
        };
        for (hop, own) in own.iter().enumerate() {
            let mean = match hop {
                0 => node.before[0],
                _ => dot(&node.weights(hop), &node.before),
            };
            node.scores.push(apply(activation, mean + own));
        }
        node
    }

    /// The weights of the first `seen` hops: their shares times their factors.
    pub fn weights(&self, seen: usize) -> Vec<f32> {
        let shares = self.shares(seen).into_iter().enumerate();
        shares
            .map(|(hop, share)| share * self.factor(seen, hop))
            .collect()
    }

    /// The gradients, from those of the final weights.
    pub fn backward(&self, of_weights: &[f32]) -> NodeGradient {
        let count = self.scores.len();
        let mut of_scores = vec![0.0; count];
        let mut found = NodeGradient {
            before: vec![0.0; count],
            own: vec![0.0; count],
        };
        self.through_shares(of_weights, &mut of_scores);
        for hop in (0..count).rev() {
            let slope = slope(self.activation, self.scores[hop]) * of_scores[hop];
            found.own[hop] = slope;
            if hop == 0 {
                found.before[0] += slope;
                continue;
            }
            for (sum, weight) in found.before.iter_mut().zip(self.weights(hop)) {
                *sum += slope * weight;
            }
            let of_weights: Vec<f32> = self.before[..hop].iter().map(|x| slope * x).collect();
            self.through_shares(&of_weights, &mut of_scores);
        }
        found
    }

    /// Adds what the gradients of weights of the first hops are for their scores.
    fn through_shares(&self, of_weights: &[f32], of_scores: &mut [f32]) {
        let seen = of_weights.len();
        let shares = self.shares(seen);
        let of_shares: Vec<f32> = of_weights
            .iter()
            .enumerate()
            .map(|(hop, grad)| grad * self.factor(seen, hop))
            .collect();
        let mean = dot(&shares, &of_shares);
        for (hop, share) in shares.iter().enumerate() {
            of_scores[hop] += share * (of_shares[hop] - mean);
        }
    }

    fn shares(&self, seen: usize) -> Vec<f32> {
        let scores = &self.scores[..seen];
        let top = scores.iter().copied().fold(f32::MIN, f32::max);
        let mut shares: Vec<f32> = scores.iter().map(|score| (score - top).exp()).collect();
        let sum: f32 = shares.iter().sum();
        shares.iter_mut().for_each(|share| *share /= sum);
        shares
    }

    fn factor(&self, seen: usize, hop: usize) -> f32 {
        self.factors
            .map_or(1.0, |factors| factors[super::share_count(seen - 1) + hop])
    }
}

fn apply(activation: ScoreActivation, x: f32) -> f32 {
    match activation {
        // What is not a number stays so.
        ScoreActivation::Relu if x <= 0.0 => 0.0,
        ScoreActivation::LeakyRelu if x <= 0.0 => ScoreActivation::LEAK as f32 * x,
        ScoreActivation::Relu | ScoreActivation::LeakyRelu => x,
        ScoreActivation::Sigmoid => 1.0 / (1.0 + (-x).exp()),
    }
}

/// The derivative, where the result is `y`.
fn slope(activation: ScoreActivation, y: f32) -> f32 {
    match activation {
        ScoreActivation::Relu if y > 0.0 => 1.0,
        ScoreActivation::Relu => 0.0,
        ScoreActivation::LeakyRelu if y > 0.0 => 1.0,
        ScoreActivation::LeakyRelu => ScoreActivation::LEAK as f32,
        ScoreActivation::Sigmoid => y * (1.0 - y),
    }
}

/// The sum of products of the elements that both have.
pub(super) fn dot(x: &[f32], y: &[f32]) -> f32 {
    x.iter().zip(y).map(|(x, y)| x * y).sum()
}
