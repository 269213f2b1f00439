//! x
use fashion_mnist::*;
fn main() {
    let mut args = std::env::args().skip(1);
    let method = args.next().unwrap();
    let seeds: u64 = args.next().unwrap().parse().unwrap();
    let epochs: usize = args.next().unwrap().parse().unwrap();
    let loss = args.next().unwrap();
    let data = Dataset::subset();
    let mut runs = vec![];
    let options = Options { method: if method == "set" { Method::Set } else { Method::Static }, epochs,
        loss: match loss.as_str() { "mse" => Loss::Mse, "ce" => Loss::CrossEntropy, _ => Loss::Published }, ..Options::default() };
    for seed in 0..seeds {
        let mut t = Trainer::new(options.clone(), &data, seed, &burn::tensor::Device::flex()).unwrap();
        for _ in 0..epochs { t = t.epoch().unwrap(); let r = t.last().unwrap();
            if r.epoch % 20 == 0 || epochs < 20 || r.epoch == 1 { println!("{} {} {:.5} {:.5} {:.4} {} {:.4}", seed, r.epoch, r.train_loss, r.test_loss, r.test_accuracy, r.replaced, r.seconds); } }
        runs.push(t.finish());
        println!("{}", Results::new(data.id().clone(), options.clone(), runs.clone()));
    }
}
