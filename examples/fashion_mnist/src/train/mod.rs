mod trainer; pub use trainer::*;
