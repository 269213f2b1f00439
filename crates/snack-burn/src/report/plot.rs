//! Pictures of reports, as SVG. No fonts are needed to draw them; the viewer chooses one.

use plotters::coord::Shift;
use plotters::prelude::*;

use super::DensityReport;

/// Why a picture cannot be drawn.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum PlotError {
    /// There is nothing to draw.
    #[error("a picture of {0} needs at least one")]
    Empty(&'static str),
    /// The plotting library failed.
    #[error("cannot draw: {0}")]
    Draw(String),
}

const SIZE: (u32, u32) = (900, 500);
const PANEL: (u32, u32) = (360, 260);
const FONT: &str = "sans-serif";
/// More lines than this are drawn without a legend.
const MOST_LABELS: usize = 12;

/// Density of every layer over the steps of a run, in percent; the scale is logarithmic if densities
/// differ by more than twenty times.
///
/// # Errors
///
/// [`PlotError::Empty`] without a report that has layers.
pub fn density(reports: &[DensityReport]) -> Result<String, PlotError> {
    let names = layer_names(reports);
    if names.is_empty() {
        return Err(PlotError::Empty("the density of layers"));
    }
    let lines: Vec<(String, Vec<(f64, f64)>)> = names
        .into_iter()
        .map(|name| {
            let points = reports.iter().enumerate().filter_map(|(index, report)| {
                let step = report.step.unwrap_or(index as u64) as f64;
                Some((step, 100.0 * report.layer(&name)?.density))
            });
            let points = points.collect();
            (
                if name.is_empty() {
                    "(model)".into()
                } else {
                    name
                },
                points,
            )
        })
        .collect();
    let values = lines
        .iter()
        .flat_map(|(_, points)| points.iter().map(|&(_, value)| value));
    let (low, high) = range(values.clone());
    let positive = values
        .filter(|&value| value > 0.0)
        .fold(f64::INFINITY, f64::min);
    let logarithmic = low > 0.0 && high > 20.0 * positive;
    let frame = Frame {
        title: "Density by layer",
        x: "step",
        y: "density, %",
        logarithmic,
        from_zero: true,
    };
    draw(SIZE, |root| frame.draw(root, &lines, &[]))
}

/// How many outputs have how many inputs, a panel for every layer.
///
/// # Errors
///
/// [`PlotError::Empty`] if the report has no layers.
pub fn fan_in(report: &DensityReport) -> Result<String, PlotError> {
    let count = report.layers.len();
    if count == 0 {
        return Err(PlotError::Empty("fan-in histograms"));
    }
    let columns = (count as f64).sqrt().ceil() as usize;
    let rows = count.div_ceil(columns);
    let size = (PANEL.0 * columns as u32, PANEL.1 * rows as u32);
    draw(size, |root| {
        for (area, layer) in root
            .split_evenly((rows, columns))
            .iter()
            .zip(&report.layers)
        {
            let degrees = &layer.fan_in;
            let title = match layer.name.as_str() {
                "" => "fan-in".to_string(),
                name => format!("fan-in of {name}"),
            };
            let title = format!("{title}: mean {:.1}, cv {:.2}", degrees.mean, degrees.cv);
            histogram(area, &title, &degrees.histogram)?;
        }
        Ok(())
    })
}

/// A loss over the steps of a run, with a mark at every topology update.
///
/// # Errors
///
/// [`PlotError::Empty`] without a finite loss.
pub fn loss(points: &[(u64, f64)], updates: &[u64]) -> Result<String, PlotError> {
    let points: Vec<(f64, f64)> = points
        .iter()
        .filter(|(_, loss)| loss.is_finite())
        .map(|&(step, loss)| (step as f64, loss))
        .collect();
    if points.is_empty() {
        return Err(PlotError::Empty("a loss"));
    }
    let (low, high) = range(points.iter().map(|&(_, loss)| loss));
    let frame = Frame {
        title: match updates {
            [] => "Loss",
            _ => "Loss; ticks at the bottom mark topology updates",
        },
        x: "step",
        y: "loss",
        logarithmic: low > 0.0 && high > 20.0 * low,
        from_zero: false,
    };
    let updates: Vec<f64> = updates.iter().map(|&step| step as f64).collect();
    draw(SIZE, |root| {
        frame.draw(root, &[(String::new(), points)], &updates)
    })
}

type Area<'a> = DrawingArea<SVGBackend<'a>, Shift>;
type Drawn = Result<(), Box<dyn std::error::Error>>;

fn draw(size: (u32, u32), picture: impl FnOnce(&Area<'_>) -> Drawn) -> Result<String, PlotError> {
    let mut svg = String::new();
    {
        let root = SVGBackend::with_string(&mut svg, size).into_drawing_area();
        root.fill(&WHITE)
            .map_err(Into::into)
            .and_then(|()| picture(&root))
            .and_then(|()| root.present().map_err(Into::into))
            .map_err(|error: Box<dyn std::error::Error>| PlotError::Draw(error.to_string()))?;
    }
    Ok(svg)
}

/// Axes for lines over steps.
struct Frame {
    title: &'static str,
    x: &'static str,
    y: &'static str,
    logarithmic: bool,
    from_zero: bool,
}

impl Frame {
    fn draw(&self, root: &Area<'_>, lines: &[(String, Vec<(f64, f64)>)], marks: &[f64]) -> Drawn {
        let all = || lines.iter().flat_map(|(_, points)| points);
        let (left, right) = range(all().map(|&(x, _)| x).chain(marks.iter().copied()));
        let place = |y: f64| if self.logarithmic { y.log10() } else { y };
        let (low, high) = range(all().map(|&(_, y)| place(y)));
        let low = match self.from_zero && !self.logarithmic {
            true => 0.0,
            false => low,
        };
        let margin = 0.05 * (high - low).max(1e-3 * high.abs()).max(1e-9);
        let low = if low == 0.0 { 0.0 } else { low - margin };
        let (low, high) = (low, high + margin);
        let right = right.max(left + 1.0);

        let mut chart = ChartBuilder::on(root)
            .caption(self.title, (FONT, 20))
            .margin(14)
            .x_label_area_size(40)
            .y_label_area_size(70)
            .build_cartesian_2d(left..right, low..high)?;
        let logarithmic = self.logarithmic;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .x_desc(self.x)
            .y_desc(self.y)
            .x_label_formatter(&|x| format!("{x:.0}"))
            .y_label_formatter(&|&y| number(if logarithmic { 10_f64.powf(y) } else { y }))
            .draw()?;
        let tick = low + 0.04 * (high - low);
        for &x in marks {
            let line = vec![(x, low), (x, tick)];
            chart.draw_series([PathElement::new(line, BLACK.mix(0.6).stroke_width(1))])?;
        }
        for (index, (name, points)) in lines.iter().enumerate() {
            let color = Palette99::pick(index).to_rgba();
            let placed = points.iter().map(|&(x, y)| (x, place(y)));
            let series = chart.draw_series(LineSeries::new(placed, color.stroke_width(2)))?;
            if !name.is_empty() && lines.len() <= MOST_LABELS {
                series.label(name).legend(move |(x, y)| {
                    PathElement::new(vec![(x, y), (x + 18, y)], color.stroke_width(2))
                });
            }
        }
        if lines.len() <= MOST_LABELS && lines.iter().any(|(name, _)| !name.is_empty()) {
            chart
                .configure_series_labels()
                .position(SeriesLabelPosition::UpperRight)
                .background_style(WHITE.mix(0.8))
                .border_style(BLACK.mix(0.3))
                .draw()?;
        }
        Ok(())
    }
}

fn histogram(area: &Area<'_>, title: &str, bars: &[(usize, usize)]) -> Drawn {
    let first = bars.first().map_or(0, |&(degree, _)| degree);
    let last = bars.last().map_or(0, |&(degree, _)| degree);
    let most = bars.iter().map(|&(_, units)| units).max().unwrap_or(1);
    let (left, right) = (first as f64 - 0.5, last as f64 + 0.5);
    let mut chart = ChartBuilder::on(area)
        .caption(title, (FONT, 14))
        .margin(10)
        .x_label_area_size(34)
        .y_label_area_size(46)
        .build_cartesian_2d(left..right, 0.0..1.05 * most as f64)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .x_desc("connections")
        .y_desc("outputs")
        .x_labels(8)
        .y_labels(5)
        .x_label_formatter(&|&x| whole(x))
        .y_label_formatter(&|&y| whole(y))
        .draw()?;
    let bar = |&(degree, units): &(usize, usize)| {
        let (x, y) = (degree as f64, units as f64);
        Rectangle::new(
            [(x - 0.45, 0.0), (x + 0.45, y)],
            Palette99::pick(0).filled(),
        )
    };
    chart.draw_series(bars.iter().map(bar))?;
    Ok(())
}

fn layer_names(reports: &[DensityReport]) -> Vec<String> {
    let mut names: Vec<String> = Vec::new();
    for layer in reports.iter().flat_map(|report| &report.layers) {
        if !names.contains(&layer.name) {
            names.push(layer.name.clone());
        }
    }
    names
}

fn range(values: impl Iterator<Item = f64>) -> (f64, f64) {
    values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), value| {
        (low.min(value), high.max(value))
    })
}

/// A count on an axis, which has no label between whole numbers.
fn whole(value: f64) -> String {
    match (value - value.round()).abs() < 1e-9 {
        true => format!("{value:.0}"),
        false => String::new(),
    }
}

/// A number on an axis: enough digits to tell its neighbours apart, no more.
fn number(value: f64) -> String {
    let digits = match value.abs() {
        10.0.. => 0,
        1.0.. => 1,
        0.1.. => 2,
        0.01.. => 3,
        0.0 => 0,
        _ => return format!("{value:.0e}"),
    };
    format!("{value:.digits$}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::nn::SparseLinearConfig;
    use burn::tensor::Device;

    fn reports() -> Vec<DensityReport> {
        [0.9, 0.8, 0.7]
            .into_iter()
            .zip([0, 100, 200])
            .map(|(sparsity, step)| {
                let layer = SparseLinearConfig::new(30, 20)
                    .with_sparsity(sparsity)
                    .with_seed(Some(1));
                let mut report = DensityReport::of(&layer.init(&Device::default()));
                report.step = Some(step);
                report.layers[0].name = "a<b".into();
                report
            })
            .collect()
    }

    fn count(svg: &str, element: &str) -> usize {
        svg.matches(&format!("<{element} ")).count()
    }

    #[test]
    fn pictures_are_whole_and_labelled() {
        let reports = reports();
        let svg = density(&reports).unwrap();
        assert!(svg.starts_with("<svg") && svg.trim_end().ends_with("</svg>"));
        assert!(svg.contains("Density by layer") && svg.contains("density, %"));
        assert!(svg.contains("a&lt;b"), "names are escaped");

        let svg = loss(
            &[(1, 2.0), (50, 1.0), (100, f64::NAN), (150, 0.5)],
            &[40, 80],
        )
        .unwrap();
        assert!(svg.contains("topology updates") && !svg.contains("NaN"));
        let unmarked = loss(&[(1, 2.0), (150, 0.5)], &[]).unwrap();
        assert!(count(&svg, "polyline") == count(&unmarked, "polyline") + 2);
    }

    #[test]
    fn a_histogram_has_a_bar_for_every_degree() {
        let report = &reports()[2];
        let svg = fan_in(report).unwrap();
        assert!(svg.contains("fan-in of a&lt;b: mean 9.0"), "{svg}");
        // One rectangle is the background.
        assert_eq!(
            count(&svg, "rect"),
            1 + report.layers[0].fan_in.histogram.len()
        );
    }

    #[test]
    fn single_points_and_equal_values_are_drawn() {
        assert!(density(&reports()[..1]).is_ok());
        assert!(loss(&[(5, 0.0)], &[5]).is_ok());
        assert!(loss(&[(5, 1.0), (6, 1.0)], &[]).is_ok());
        let far = loss(&[(1, 1e-6), (2, 10.0)], &[]).unwrap();
        assert!(!far.contains("NaN") && !far.contains("inf"));
    }

    #[test]
    fn axes_have_short_labels() {
        assert_eq!([0.0, 3.0, 0.5].map(whole), ["0", "3", ""]);
        let numbers = [0.0, 12.34, 1.234, 0.1234, 0.01234, 0.000_123_4].map(number);
        assert_eq!(numbers, ["0", "12", "1.2", "0.12", "0.012", "1e-4"]);
    }

    #[test]
    fn nothing_to_draw_is_an_error() {
        assert_eq!(density(&[]), Err(PlotError::Empty("the density of layers")));
        assert_eq!(loss(&[(1, f64::NAN)], &[]), Err(PlotError::Empty("a loss")));
        let mut report = reports().remove(0);
        report.layers.clear();
        assert!(fan_in(&report).is_err());
    }
}
