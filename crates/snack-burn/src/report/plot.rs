//! Pictures of reports, as SVG. No fonts are needed to draw them; the viewer chooses one.

use std::f64::consts::PI;

use plotters::coord::Shift;
use plotters::prelude::*;

use super::DensityReport;
use super::axis::Axis;
use crate::nn::layer_label;

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
const MOST_LABELS: usize = 24;
/// More topology updates than this are thinned out.
const MOST_MARKS: usize = 40;
/// Labels of an axis.
const MOST_TICKS: usize = 8;
/// Points of a line that have a marker.
const MARKERS: usize = 6;

/// Density of every layer over the steps of a run, in percent; the scale is logarithmic if densities
/// differ by more than twenty times.
///
/// # Errors
///
/// [`PlotError::Empty`] without a report that has layers.
pub fn density(reports: &[DensityReport]) -> Result<String, PlotError> {
    density_to(reports, 0)
}

/// As [`density`] for a run of so many steps: the densities of the last report hold to its end.
///
/// # Errors
///
/// As [`density`].
pub fn density_to(reports: &[DensityReport], last_step: u64) -> Result<String, PlotError> {
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
            let mut points: Vec<_> = points.collect();
            if let Some(&(step, density)) = points.last()
                && step < last_step as f64
            {
                points.push((last_step as f64, density));
            }
            (layer_label(&name).to_string(), points)
        })
        .collect();
    let values = lines
        .iter()
        .flat_map(|(_, points)| points.iter().map(|&(_, value)| value));
    let (low, high) = range(values.clone());
    let frame = Frame {
        title: "Density by layer".into(),
        y: "density, %",
        logarithmic: low > 0.0 && high > 20.0 * low,
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
    curves("Loss", "loss", &[("", points.to_vec())], updates).map_err(|error| match error {
        PlotError::Empty(_) => PlotError::Empty("a loss"),
        other => other,
    })
}

/// Named quantities of one unit over the steps of a run, with marks at topology updates; the scale is
/// logarithmic if they differ by more than twenty times.
///
/// # Errors
///
/// [`PlotError::Empty`] without a finite number.
pub fn curves(
    title: &str,
    unit: &str,
    lines: &[(&str, Vec<(u64, f64)>)],
    updates: &[u64],
) -> Result<String, PlotError> {
    let lines: Vec<(String, Vec<(f64, f64)>)> = lines
        .iter()
        .map(|(name, points)| {
            let points = points.iter().filter(|(_, value)| value.is_finite());
            let points = points.map(|&(step, value)| (step as f64, value));
            (name.to_string(), points.collect::<Vec<_>>())
        })
        .filter(|(_, points)| !points.is_empty())
        .collect();
    if lines.is_empty() {
        return Err(PlotError::Empty("finite numbers"));
    }
    let values = lines.iter().flat_map(|(_, points)| points);
    let (low, high) = range(values.map(|&(_, value)| value));
    // More would be a black bar.
    let every = updates.len().div_ceil(MOST_MARKS).max(1);
    let frame = Frame {
        title: match (updates, every) {
            ([], _) => title.into(),
            (_, 1) => format!("{title}; ticks at the bottom mark topology updates"),
            (_, every) => {
                format!("{title}; a tick at the bottom marks one of every {every} topology updates")
            }
        },
        y: unit,
        logarithmic: low > 0.0 && high > 20.0 * low,
        from_zero: false,
    };
    let updates = updates.iter().step_by(every);
    let updates: Vec<f64> = updates.map(|&step| step as f64).collect();
    draw(SIZE, |root| frame.draw(root, &lines, &updates))
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
struct Frame<'a> {
    title: String,
    y: &'a str,
    logarithmic: bool,
    from_zero: bool,
}

impl Frame<'_> {
    fn draw(&self, root: &Area<'_>, lines: &[(String, Vec<(f64, f64)>)], marks: &[f64]) -> Drawn {
        let labelled = lines.len() <= MOST_LABELS && lines.iter().any(|(name, _)| !name.is_empty());
        let longest = lines.iter().map(|(name, _)| name.chars().count()).max();
        let legend = match labelled {
            true => 60 + 8 * longest.unwrap_or(0).min(MOST_LETTERS) as u32,
            false => 0,
        };
        let (area, legend) = root.split_horizontally(SIZE.0 - legend);
        if labelled {
            draw_legend(&legend, lines)?;
        }
        let all = || lines.iter().flat_map(|(_, points)| points);
        let (left, right) = range(all().map(|&(x, _)| x).chain(marks.iter().copied()));
        // From the first step, unless the lines begin late.
        let left = if left < 0.3 * right { 0.0 } else { left };
        let x = Axis::whole(left, right.max(left + 1.0), MOST_TICKS);
        let y = self.y_axis(range(all().map(|&(_, y)| y)));
        let (low, high) = (y.low, y.high);
        let place = |y: f64| if self.logarithmic { y.log10() } else { y };

        let mut chart = ChartBuilder::on(&area)
            .caption(&self.title, (FONT, 20))
            .margin(14)
            .margin_right(24)
            .x_label_area_size(40)
            .y_label_area_size(78)
            .build_cartesian_2d(x.clone(), y.clone())?;
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .x_desc("step")
            .y_desc(self.y)
            .x_label_formatter(&|&tick| x.label(tick))
            .y_label_formatter(&|&tick| y.label(tick))
            .draw()?;
        let tick = low + 0.04 * (high - low);
        for &x in marks {
            let line = vec![(x, low), (x, tick)];
            chart.draw_series([PathElement::new(line, BLACK.mix(0.6).stroke_width(1))])?;
        }
        for (index, (_, points)) in lines.iter().enumerate() {
            let style = Style::of(index);
            let placed = || points.iter().map(|&(x, y)| (x, place(y)));
            match style.dash {
                None => chart.draw_series(LineSeries::new(placed(), style.stroke()))?,
                Some((on, off)) => {
                    chart.draw_series(DashedLineSeries::new(placed(), on, off, style.stroke()))?
                }
            };
            if !lines.iter().all(|(name, _)| name.is_empty()) || points.len() == 1 {
                // At other points than those of a line that this one may cover.
                let every = points.len().div_ceil(MARKERS).max(1);
                let marked = placed().skip(index % every).step_by(every);
                chart.draw_series(marked.map(|at| EmptyElement::at(at) + style.marker()))?;
            }
        }
        Ok(())
    }

    /// The axis of values, with some room above and below.
    fn y_axis(&self, (low, high): (f64, f64)) -> Axis {
        if self.logarithmic {
            let room = (high / low).powf(0.05);
            return Axis::logarithmic(low / room, high * room, MOST_TICKS);
        }
        let low = if self.from_zero { 0.0 } else { low };
        // Values that differ by rounding are equal, and not worth an axis of many digits.
        let span = match high - low < 1e-4 * high.abs() {
            true => 2.0 * high.abs(),
            false => high - low,
        };
        let room = 0.05 * span.max(1e-9);
        let low = if low == 0.0 { 0.0 } else { low - room };
        Axis::linear(low, high + room, MOST_TICKS)
    }
}

/// Colours that are told apart whatever one's sight is (Okabe and Ito, 2008), without the yellow,
/// which is lost on white.
const COLORS: [RGBColor; 7] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(86, 180, 233),
    RGBColor(230, 159, 0),
    RGBColor(0, 0, 0),
];

/// Letters of a name in a legend; of longer ones the end is shown.
const MOST_LETTERS: usize = 32;

/// What tells a line from others, also where they coincide.
#[derive(Clone, Copy)]
struct Style {
    color: RGBColor,
    width: u32,
    /// Pixels that are drawn and left out.
    dash: Option<(u32, u32)>,
    shape: usize,
}

impl Style {
    fn of(index: usize) -> Self {
        const DASHES: [Option<(u32, u32)>; 4] = [None, Some((12, 6)), Some((4, 5)), Some((20, 4))];
        Self {
            color: COLORS[index % COLORS.len()],
            // What is drawn first is wider than what is drawn over it.
            width: if index.is_multiple_of(DASHES.len()) {
                3
            } else {
                2
            },
            dash: DASHES[index % DASHES.len()],
            shape: index % 4,
        }
    }

    fn stroke(&self) -> ShapeStyle {
        self.color.stroke_width(self.width)
    }

    /// Nearly a circle, a square, a triangle or a diamond, around the origin.
    fn marker(&self) -> Polygon<(i32, i32)> {
        let (corners, turn) = [(16, 0.0), (4, 0.5), (3, 0.75), (4, 0.0)][self.shape];
        let corner = |index: usize| {
            let angle = 2.0 * PI * (index as f64 + turn) / corners as f64;
            [angle.cos(), angle.sin()].map(|part| (6.0 * part).round() as i32)
        };
        let points: Vec<_> = (0..corners).map(corner).map(|[x, y]| (x, y)).collect();
        Polygon::new(points, self.color.filled())
    }
}

/// Names of lines beside the picture.
fn draw_legend(area: &Area<'_>, lines: &[(String, Vec<(f64, f64)>)]) -> Drawn {
    for (index, (name, _)) in lines.iter().enumerate() {
        let style = Style::of(index);
        let y = 60 + 18 * index as i32;
        let (on, off) = style.dash.unwrap_or((36, 0));
        let dashes = (0..36).step_by((on + off) as usize).map(|begin| {
            let end = (begin + on as i32).min(36);
            PathElement::new(vec![(4 + begin, y), (4 + end, y)], style.stroke())
        });
        for dash in dashes {
            area.draw(&dash)?;
        }
        area.draw(&(EmptyElement::at((22, y)) + style.marker()))?;
        let letters = name.chars().count();
        let name = match letters > MOST_LETTERS {
            true => {
                let end: String = name.chars().skip(letters + 1 - MOST_LETTERS).collect();
                format!("\u{2026}{end}")
            }
            false => name.clone(),
        };
        area.draw(&Text::new(name, (46, y - 6), (FONT, 13)))?;
    }
    Ok(())
}

/// Units by degree, summed up in groups of so many degrees that even few units make bars: the
/// degrees of a group, from and to, and its units.
fn bins(bars: &[(usize, usize)]) -> (usize, Vec<(usize, usize, usize)>) {
    let (Some(&(first, _)), Some(&(last, _))) = (bars.first(), bars.last()) else {
        return (1, Vec::new());
    };
    let units: usize = bars.iter().map(|&(_, units)| units).sum();
    let most = (2.0 * (units as f64).sqrt()).ceil().clamp(5.0, 60.0) as usize;
    let width = (last - first + 1).div_ceil(most).max(1);
    let mut bins: Vec<(usize, usize, usize)> = Vec::new();
    for &(degree, units) in bars {
        let begin = first + (degree - first) / width * width;
        match bins.last_mut() {
            Some(bin) if bin.0 == begin => bin.2 += units,
            _ => bins.push((begin, begin + width - 1, units)),
        }
    }
    (width, bins)
}

fn histogram(area: &Area<'_>, title: &str, bars: &[(usize, usize)]) -> Drawn {
    let (width, bins) = bins(bars);
    let first = bins.first().map_or(0, |bin| bin.0);
    let last = bins.last().map_or(0, |bin| bin.1);
    let most = bins.iter().map(|bin| bin.2).max().unwrap_or(1).max(1);
    // A lone bar is no wall.
    let room = if bins.len() <= 1 { 2.0 } else { 0.5 };
    let left = (first as f64 - room).max(-0.5);
    let x = Axis::whole(left, last as f64 + room, 6);
    let y = Axis::whole(0.0, 1.05 * most as f64, 5);
    let mut chart = ChartBuilder::on(area)
        .caption(title, (FONT, 14))
        .margin(10)
        .x_label_area_size(34)
        .y_label_area_size(46)
        .build_cartesian_2d(x.clone(), y.clone())?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .light_line_style(TRANSPARENT)
        .x_desc(match width {
            1 => "connections".to_string(),
            width => format!("connections, in groups of {width}"),
        })
        .y_desc("outputs")
        .x_label_formatter(&|&tick| x.label(tick))
        .y_label_formatter(&|&tick| y.label(tick))
        .draw()?;
    let bar = |&(begin, end, units): &(usize, usize, usize)| {
        let gap = 0.05 * width as f64;
        let (begin, end) = (begin as f64 - 0.5 + gap, end as f64 + 0.5 - gap);
        Rectangle::new([(begin, 0.0), (end, units as f64)], COLORS[0].filled())
    };
    chart.draw_series(bins.iter().map(bar))?;
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
        // A marker for the line in the picture and in the legend.
        assert!(count(&svg, "polygon") >= 2, "{svg}");
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
    fn a_histogram_counts_every_unit_once() {
        let report = &reports()[2];
        let svg = fan_in(report).unwrap();
        assert!(svg.contains("fan-in of a&lt;b: mean 9.0"), "{svg}");
        let (_, groups) = bins(&report.layers[0].fan_in.histogram);
        // One rectangle is the background.
        assert_eq!(count(&svg, "rect"), 1 + groups.len());
        assert_eq!(groups.iter().map(|group| group.2).sum::<usize>(), 20);
    }

    #[test]
    fn few_units_are_put_in_groups() {
        assert_eq!(bins(&[(3, 5), (4, 7)]), (1, vec![(3, 3, 5), (4, 4, 7)]));
        let scattered: Vec<_> = (0..10).map(|index| (700 + 7 * index, 1)).collect();
        let (width, groups) = bins(&scattered);
        assert_eq!(width, 10);
        assert_eq!(groups.len(), 7);
        assert!(groups.iter().all(|(begin, end, _)| end - begin == 9));
        assert_eq!(bins(&[]), (1, vec![]));
        assert_eq!(bins(&[(0, 5)]), (1, vec![(0, 0, 5)]));
    }

    /// Labels are text elements: those of the axes, in the order of the file.
    fn texts(svg: &str) -> Vec<&str> {
        let parts = svg
            .split("</text>")
            .filter_map(|part| part.rsplit('>').next());
        parts
            .map(str::trim)
            .filter(|text| !text.is_empty())
            .collect()
    }

    #[test]
    fn one_report_is_a_point_and_steps_are_whole() {
        let svg = density(&reports()[..1]).unwrap();
        assert_eq!(count(&svg, "polygon"), 2, "a point and its legend: {svg}");
        let steps: Vec<_> = texts(&svg)
            .into_iter()
            .filter(|text| *text == "0")
            .collect();
        assert!(steps.len() <= 2, "once on each axis: {steps:?}");
        let zero = SparseLinearConfig::new(5, 5).with_nnz(Some(0));
        let zero = DensityReport::of(&zero.init(&Device::default()));
        let svg = fan_in(&zero).unwrap();
        assert!(!texts(&svg).contains(&"-0"), "{svg}");
    }

    #[test]
    fn a_run_is_drawn_to_its_end() {
        let svg = density_to(&reports(), 5000).unwrap();
        assert!(texts(&svg).contains(&"5,000"), "{svg}");
        assert!(!texts(&density(&reports()).unwrap()).contains(&"5,000"));
    }

    #[test]
    fn many_updates_are_thinned_out() {
        let points = [(1, 2.0), (400, 1.0)];
        let updates: Vec<u64> = (1..400).collect();
        let [none, all] = [&[], &updates[..]].map(|updates| loss(&points, updates).unwrap());
        assert_eq!(count(&all, "polyline"), count(&none, "polyline") + 40);
        assert!(all.contains("one of every 10 topology updates"));
    }

    /// Lines that coincide differ in dash, marker and the points that have one.
    #[test]
    fn covered_lines_are_visible() {
        let mut report = reports().remove(0);
        let mut second = report.layers[0].clone();
        second.name = "c".into();
        report.layers.push(second);
        let mut later = report.clone();
        later.step = Some(50);
        let svg = density(&[report, later]).unwrap();
        assert_eq!(
            count(&svg, "polygon"),
            3 + 3,
            "two points and a legend each"
        );
        let styles: Vec<_> = (0..4).map(Style::of).collect();
        for (index, style) in styles.iter().enumerate() {
            let others = styles[..index].iter();
            assert!(others.clone().all(|other| other.dash != style.dash));
            assert!(others.clone().all(|other| other.shape != style.shape));
        }
        // The legend is beside the picture: its text begins right of the frame.
        assert!(texts(&svg).contains(&"c"));
    }

    #[test]
    fn single_points_and_equal_values_are_drawn() {
        assert!(density(&reports()[..1]).is_ok());
        assert!(loss(&[(5, 0.0)], &[5]).is_ok());
        assert!(loss(&[(5, 1.0), (6, 1.0)], &[]).is_ok());
        let equal = loss(&[(5, 1.0), (6, 1.000_002)], &[]).unwrap();
        let labels = texts(&equal).into_iter().filter(|text| text.contains('.'));
        let longest = labels.map(str::len).max();
        assert!(longest.is_some_and(|length| length <= 4), "{equal}");
        let far = loss(&[(1, 1e-6), (2, 10.0)], &[]).unwrap();
        assert!(!far.contains("NaN") && !far.contains("inf"));
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
