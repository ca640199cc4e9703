//! What a missing tool means for the tests: which of them are left out, and what is said about it.

use super::summary::NotRun;
use crate::tools::{Absent, Requirement, Unmet};

/// Leaves the tests out whose tools are missing.
pub fn filter(unmet: &[Unmet]) -> Option<String> {
    let left_out = unmet.iter().filter_map(|unmet| match unmet.requirement.absent {
        Absent::LeavesOut(filter) => Some(format!("not ({filter})")),
        Absent::Fails => None,
    });
    let parts: Vec<String> = left_out.collect();
    (!parts.is_empty()).then(|| parts.join(" and "))
}

pub fn not_run(unmet: &Unmet) -> NotRun {
    let Requirement { name, why, absent, .. } = unmet.requirement;
    let what = match absent {
        Absent::Fails => format!("what needs {name} ({why})"),
        Absent::LeavesOut(filter) => format!("tests {filter}, which need {name} ({why})"),
    };
    NotRun { what, reason: unmet.reason.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tools;

    fn unmet(name: &str) -> Unmet {
        let requirement = tools::find(name).expect("listed");
        Unmet { requirement, reason: "no registry has it".to_owned() }
    }

    #[test]
    fn tests_of_missing_tools_are_left_out_by_name() {
        let terraform = "not (package(orrery-terraform) and test(/^real::/))";
        assert_eq!(filter(&[]), None);
        assert_eq!(filter(&[unmet("etcd-server")]), None, "its lack is a failure");
        assert_eq!(filter(&[unmet("terraform")]).as_deref(), Some(terraform));
        let both = filter(&[unmet("terraform"), unmet("kubernetes-client")]);
        assert_eq!(both, Some(format!("{terraform} and not (test(kubectl::))")));
        let said = not_run(&unmet("terraform"));
        assert!(said.what.contains("real::") && said.reason.contains("no registry"), "{said:?}");
    }
}
