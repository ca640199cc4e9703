//! Figures of a server, read from the text that Prometheus reads.
use std::collections::BTreeMap;

/// Samples by name and labels, as they stand in the text.
#[derive(Clone, Debug, Default)]
pub struct Figures {
    samples: BTreeMap<(String, String), f64>,
}

impl Figures {
    pub fn parse(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        Self { samples: lines.filter_map(sample).collect() }
    }

    /// How much each figure grew.
    pub fn since(&self, before: &Self) -> Self {
        let grown = |(key, value): (&(String, String), &f64)| {
            (key.clone(), value - before.samples.get(key).copied().unwrap_or_default())
        };
        Self { samples: self.samples.iter().map(grown).collect() }
    }

    /// A figure over all its labels.
    pub fn sum(&self, name: &str) -> f64 {
        total(self.of(name).map(|(_, value)| value))
    }

    pub fn sum_where(&self, name: &str, label: &str, wanted: impl Fn(&str) -> bool) -> f64 {
        let fits = |labels: &str| find(labels, label).is_some_and(&wanted);
        total(self.of(name).filter(|(labels, _)| fits(labels)).map(|(_, value)| value))
    }

    pub fn label(&self, name: &str, label: &str) -> Option<&str> {
        self.of(name).find_map(|(labels, _)| find(labels, label))
    }

    /// The bound of the bucket below which this part of what was measured lies.
    pub fn quantile(&self, name: &str, part: f64) -> Option<f64> {
        let mut buckets: Vec<(f64, f64)> = Vec::new();
        for (labels, count) in self.of(&format!("{name}_bucket")) {
            let Some(bound) = find(labels, "le").and_then(|le| le.parse().ok()) else { continue };
            match buckets.iter_mut().find(|(known, _)| *known == bound) {
                Some((_, sum)) => *sum += count,
                None => buckets.push((bound, count)),
            }
        }
        let total = self.sum(&format!("{name}_count"));
        buckets.sort_by(|a, b| a.0.total_cmp(&b.0));
        let enough = |&(_, count): &(f64, f64)| 0.0 < total && part * total <= count;
        buckets.into_iter().find(enough).map(|(bound, _)| bound)
    }

    fn of<'a>(&'a self, name: &str) -> impl Iterator<Item = (&'a str, f64)> + use<'a> {
        let name = name.to_owned();
        let own = move |((found, _), _): &(&(String, String), &f64)| *found == name;
        self.samples.iter().filter(own).map(|((_, labels), value)| (labels.as_str(), *value))
    }
}

/// `name{labels} value`
/// The sum; of nothing it is zero, and not the negative zero that people are shown with its sign.
fn total(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(0.0, |sum, value| sum + value)
}

fn sample(line: &str) -> Option<((String, String), f64)> {
    let (head, value) = line.rsplit_once(' ')?;
    let (name, labels) = head.split_once('{').unwrap_or((head, ""));
    let labels = labels.trim_end_matches('}');
    Some(((name.to_owned(), labels.to_owned()), value.parse().ok()?))
}

fn find<'a>(labels: &'a str, name: &str) -> Option<&'a str> {
    let start = labels.find(&format!("{name}=\""))? + name.len() + 2;
    labels[start..].split('"').next()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "# HELP x y\nup 1\nreq_total{verb=\"get\",code=\"200\"} 7\n\
        req_total{verb=\"get\",code=\"500\"} 1\nt_count{verb=\"get\"} 8\n\
        t_bucket{le=\"0.1\",verb=\"get\"} 4\nt_bucket{le=\"0.2\",verb=\"get\"} 7\n\
        t_bucket{le=\"+Inf\",verb=\"get\"} 8\ninfo{version=\"1\"} 1\n# EOF\n";

    #[test]
    fn figures_are_read_and_summed() {
        let figures = Figures::parse(TEXT);
        assert_eq!(figures.sum("up"), 1.0);
        assert_eq!(figures.sum("req_total"), 8.0);
        assert_eq!(format!("{:.1}", figures.sum("nothing")), "0.0", "without a sign");
        assert_eq!(figures.sum_where("req_total", "code", |code| code == "500"), 1.0);
        assert_eq!(figures.label("info", "version"), Some("1"));
        assert_eq!(figures.quantile("t", 0.5), Some(0.1));
        assert_eq!(figures.quantile("t", 0.8), Some(0.2));
        assert_eq!(figures.quantile("t", 0.99), Some(f64::INFINITY));
        let later = Figures::parse("req_total{verb=\"get\",code=\"200\"} 9\n");
        assert_eq!(later.since(&figures).sum("req_total"), 2.0);
        assert_eq!(later.since(&figures).quantile("t", 0.5), None, "nothing was measured");
    }
}
