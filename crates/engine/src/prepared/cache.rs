//! The plan cache of a session: templates of query texts, by normal form.
//!
//! A form is only noted when it is seen for the first time, and gets a template the second time, so that
//! texts that never come again cost nothing. A form has one entry with the literals that are parameters, and
//! in it a template for each set of values of the other literals (a limit, a column's position).
//!
//! Invariant: at most [`MAX_FORMS`] entries with [`MAX_VARIANTS`] templates each are kept, those used last.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use datafusion::common::ScalarValue;

use super::normal_form::NormalForm;
use super::operands::LiteralOperand;
use super::template::QueryTemplate;

/// Forms that a session keeps.
const MAX_FORMS: usize = 128;
/// Templates of a form.
const MAX_VARIANTS: usize = 4;

/// The plan cache of a session.
#[derive(Default)]
pub(crate) struct PlanCache {
    forms: Mutex<Forms>,
}

#[derive(Default)]
struct Forms {
    entries: HashMap<Box<[u8]>, FormEntry>,
    /// Number of look-ups so far, as a clock.
    clock: u64,
}

struct FormEntry {
    used: u64,
    state: FormState,
}

enum FormState {
    /// It was seen once.
    Seen,
    /// It has no template, with these settings.
    Refused(u64),
    /// It has templates.
    Planned {
        /// The operand that each literal is; `None` for literals that are no parameters.
        operands: Arc<[Option<LiteralOperand>]>,
        /// The oldest one first.
        variants: Vec<PlanVariant>,
    },
}

/// A template for some values of the literals that are no parameters.
struct PlanVariant {
    /// These values as they are written.
    fixed: Vec<String>,
    template: Arc<QueryTemplate>,
}

/// The outcome of looking up a text in the plan cache.
pub(crate) enum PlanLookup {
    /// It has no normal form, or the cache is off.
    Uncacheable,
    /// Its form has no template and gets none.
    Refused(NormalForm),
    /// Its form is seen for the first time.
    First,
    /// Its form was seen before: a template is worth while.
    Repeated(NormalForm),
    /// There is a template for it.
    Hit {
        /// Its form.
        form: NormalForm,
        /// The template.
        template: Arc<QueryTemplate>,
        /// Values of the parameters.
        values: Vec<ScalarValue>,
    },
}

impl PlanLookup {
    /// Returns the form of a text that was seen before and has no template.
    pub(crate) fn repeated(&self) -> Option<&NormalForm> {
        match self {
            Self::Refused(form) | Self::Repeated(form) => Some(form),
            Self::Uncacheable | Self::First | Self::Hit { .. } => None,
        }
    }
}

impl PlanCache {
    fn forms(&self) -> MutexGuard<'_, Forms> {
        self.forms.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Looks up a text for a set of settings.
    pub(crate) fn look_up(&self, text: &str, settings: u64) -> PlanLookup {
        let Some(form) = NormalForm::from_text(text) else {
            return PlanLookup::Uncacheable;
        };
        let mut forms = self.forms();
        forms.clock += 1;
        let clock = forms.clock;
        let Some(entry) = forms.entries.get_mut(form.key()) else {
            forms.insert(form.key(), FormState::Seen);
            return PlanLookup::First;
        };
        entry.used = clock;
        match &entry.state {
            FormState::Seen => PlanLookup::Repeated(form),
            FormState::Refused(with) if *with == settings => PlanLookup::Refused(form),
            FormState::Refused(_) => PlanLookup::Repeated(form),
            FormState::Planned { operands, variants } => {
                let fits = |variant: &&PlanVariant| {
                    variant.template.settings() == settings && is_fixed(&form, operands, &variant.fixed)
                };
                match (variants.iter().find(fits), values(&form, operands)) {
                    (Some(variant), Some(values)) => PlanLookup::Hit {
                        template: Arc::clone(&variant.template),
                        form,
                        values,
                    },
                    _ => PlanLookup::Repeated(form),
                }
            }
        }
    }

    /// Notes that texts of a form have no template, with these settings.
    pub(crate) fn refuse(&self, form: &NormalForm, settings: u64) {
        self.forms().insert(form.key(), FormState::Refused(settings));
    }

    /// Adds a template for a text whose literals are these operands. It replaces one for the same values.
    pub(crate) fn add(
        &self,
        form: &NormalForm,
        operands: Arc<[Option<LiteralOperand>]>,
        template: Arc<QueryTemplate>,
    ) {
        let fixed: Vec<String> = fixed(form, &operands).map(str::to_owned).collect();
        let mut forms = self.forms();
        let known = forms.entries.get_mut(form.key());
        let mut variants = match known.map(|entry| &mut entry.state) {
            // The operands follow from the form, but for their places in the text.
            Some(FormState::Planned { variants, .. }) => std::mem::take(variants),
            _ => Vec::new(),
        };
        variants.retain(|variant| variant.fixed != fixed);
        if variants.len() == MAX_VARIANTS {
            variants.remove(0);
        }
        variants.push(PlanVariant { fixed, template });
        forms.insert(form.key(), FormState::Planned { operands, variants });
    }
}

impl Forms {
    fn insert(&mut self, key: &[u8], state: FormState) {
        if self.entries.len() >= MAX_FORMS && !self.entries.contains_key(key) {
            let oldest = self.entries.iter().min_by_key(|(_, entry)| entry.used);
            if let Some(oldest) = oldest.map(|(key, _)| key.clone()) {
                self.entries.remove(&oldest);
            }
        }
        let used = self.clock;
        self.entries.insert(key.into(), FormEntry { used, state });
    }
}

/// Returns the literals that are no parameters.
fn fixed<'a>(
    form: &'a NormalForm,
    operands: &'a [Option<LiteralOperand>],
) -> impl Iterator<Item = &'a str> + 'a {
    let literals = form.literals().iter().zip(operands);
    literals
        .filter(|(_, operand)| operand.is_none())
        .map(|(literal, _)| literal.text())
}

fn is_fixed(form: &NormalForm, operands: &[Option<LiteralOperand>], to: &[String]) -> bool {
    fixed(form, operands).eq(to.iter().map(String::as_str))
}

/// Returns the values of the parameters; `None` if one of them cannot be read.
fn values(form: &NormalForm, operands: &[Option<LiteralOperand>]) -> Option<Vec<ScalarValue>> {
    let literals = form.literals().iter().zip(operands);
    let operands = literals.filter_map(|(literal, operand)| Some((literal, operand.as_ref()?)));
    operands
        .map(|(literal, operand)| literal.value(operand))
        .collect()
}
