//! Reads the directives of a text into a typed [`Block`]: the table of supported directives.

use sluice_config::directives::Instruction;

use super::block::Block;
use super::context::{Context, Place};
use super::grammar::{self, Directive};
use super::variables::Declared;
use super::{access, condition, headers, input, program, settings};

/// Why a snippet is not translated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Untranslated {
    /// The line and the directive, with what is wrong: completes "the snippet is not translated: ...".
    pub(super) reason: String,
    /// How to fix it.
    pub(super) remedy: String,
}

/// A fault of one directive: the reason, and the setting that replaces the directive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Fault {
    pub(super) reason: String,
    pub(super) replacement: Option<&'static str>,
}

impl From<String> for Fault {
    fn from(reason: String) -> Self {
        Self { reason, replacement: None }
    }
}

impl From<&str> for Fault {
    fn from(reason: &str) -> Self {
        Self::from(reason.to_owned())
    }
}

impl Fault {
    /// A fault with the setting to use in place of the directive.
    pub(super) fn with(reason: impl Into<String>, replacement: &'static str) -> Self {
        Self { reason: reason.into(), replacement: Some(replacement) }
    }
}

/// Translates a text that is pasted into `place`.
///
/// # Errors
/// The first directive that nginx would refuse there, or that cannot be carried out here.
pub(super) fn read(text: &str, place: Place) -> Result<Block, Untranslated> {
    let directives = grammar::parse(text).map_err(|error| Untranslated {
        reason: error.to_string(),
        remedy: "correct the text; nginx refuses it too".to_owned(),
    })?;
    let mut reader = Reader { declared: program::declared(&directives) };
    reader.block(&directives, Context { place, in_if: false })
}

/// State of the translation of one text.
pub(super) struct Reader {
    pub(super) declared: Declared,
}

impl Reader {
    pub(super) fn block(
        &mut self,
        directives: &[Directive],
        context: Context,
    ) -> Result<Block, Untranslated> {
        let mut block = Block::default();
        for directive in directives {
            self.directive(directive, context, &mut block)?;
        }
        Ok(block)
    }

    fn directive(
        &mut self,
        directive: &Directive,
        context: Context,
        block: &mut Block,
    ) -> Result<(), Untranslated> {
        let Directive { name, arguments, line, block: inner } = directive;
        let fail = |fault: Fault| Untranslated {
            reason: format!("line {line}: {name}: {}", fault.reason),
            remedy: match fault.replacement {
                Some(replacement) => format!("use {replacement} in place of the directive"),
                None => {
                    "correct or remove the directive; docs/snippets.md lists what is translated".to_owned()
                }
            },
        };
        if let Some(inner) = inner {
            return match (&**name, context.in_if) {
                ("if", false) if context.place != Place::Authorisation => {
                    let condition = condition::read(arguments, &self.declared).map_err(fail)?;
                    let then = self.block(inner, Context { in_if: true, ..context })?;
                    block.lines.push(format!("line {line}: if: {}", arguments.join(" ")));
                    block.lines.extend(then.lines.iter().cloned());
                    let scope = match context.place {
                        Place::Server => None,
                        Place::Location | Place::Block | Place::Authorisation => {
                            block.conditional.push(Block {
                                program: Vec::new(),
                                lines: Vec::new(),
                                ..then.clone()
                            });
                            u16::try_from(block.conditional.len()).ok()
                        }
                    };
                    block.program.push(Instruction::If { condition, scope, then: then.program });
                    Ok(())
                }
                ("location", false) if context.place == Place::Server => {
                    let matches = program::location_match(arguments).map_err(fail)?;
                    let location = self.block(inner, Context { place: Place::Block, in_if: false })?;
                    block.lines.push(format!("line {line}: location: {}", arguments.join(" ")));
                    block.lines.extend(location.lines.iter().cloned());
                    block.locations.push((matches, Block { lines: Vec::new(), ..location }));
                    Ok(())
                }
                ("if" | "location", _) => {
                    Err(fail(format!("nginx does not permit it in {}", context.name()).into()))
                }
                _ => Err(fail(unsupported(name))),
            };
        }
        let line_of = |text: String| format!("line {line}: {name}: {text}");
        let translated = match &**name {
            "set" | "rewrite" | "return" | "break" if context.place != Place::Authorisation => {
                program::read(name, arguments, &self.declared, context, block)
            }
            "auth_request_set" => program::authorised(arguments, context, block),
            _ if context.place == Place::Authorisation
                && !matches!(&**name, "proxy_set_header" | "grpc_set_header") =>
            {
                Err(format!("it is not translated in {}", context.name()).into())
            }
            _ if context.is_server_if() => {
                Err(format!("nginx does not permit it in {}", context.name()).into())
            }
            "more_set_headers" | "more_clear_headers" | "add_header" | "proxy_hide_header"
            | "grpc_hide_header" | "default_type" | "expires" => {
                headers::read(name, arguments, &self.declared, context, block)
            }
            "more_set_input_headers"
            | "more_clear_input_headers"
            | "proxy_set_header"
            | "grpc_set_header" => input::read(name, arguments, &self.declared, context, block),
            "allow" | "deny" => access::read(name, arguments, context, block),
            _ if settings::is_known(name) => settings::read(name, arguments, context, block),
            _ => Err(unsupported(name)),
        };
        block.lines.push(line_of(translated.map_err(fail)?));
        Ok(())
    }
}

/// The fault of a directive outside of the subset, with the setting that replaces it.
fn unsupported(name: &str) -> Fault {
    const REPLACEMENTS: &[(&str, &str)] = &[
        ("auth_basic", "the annotations auth-type and auth-secret"),
        ("auth_request", "the annotation auth-url"),
        ("error_page", "the annotations custom-http-errors and default-backend"),
        ("gzip", "the ConfigMap key use-gzip"),
        ("limit_conn", "the annotation limit-connections"),
        ("limit_rate", "the annotation limit-rate"),
        ("limit_req", "the annotation limit-rps or limit-rpm"),
        ("mirror", "the annotation mirror-target"),
        ("proxy_next_upstream", "the annotation proxy-next-upstream"),
        ("proxy_pass", "a path with a Service (type ExternalName for names outside of the cluster)"),
        ("proxy_redirect", "the annotations proxy-redirect-from and proxy-redirect-to"),
        ("proxy_ssl_name", "the annotation proxy-ssl-name"),
        ("proxy_ssl_server_name", "the annotation proxy-ssl-server-name"),
        ("proxy_ssl_verify", "the annotation proxy-ssl-verify"),
    ];
    let replacement = REPLACEMENTS.iter().find(|(known, _)| *known == name).map(|(_, instead)| *instead);
    Fault { reason: "the directive is not translated".to_owned(), replacement }
}
