package main

import (
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"

	coreruleset "github.com/corazawaf/coraza-coreruleset/v4"
	"github.com/corazawaf/coraza/v3"
	"github.com/corazawaf/coraza/v3/types"
)

// ruleSet is a compiled configuration.
type ruleSet struct {
	waf coraza.WAF
	// wantsResponse is set if the text itself has rules about responses, or has their bodies read. The
	// rules of the core rule set alone do not justify to hold each response.
	wantsResponse bool
}

// ofResponse matches rules about a response, and the directive that has bodies of responses read.
var ofResponse = regexp.MustCompile(`(?i)^Sec(Rule|Action)\b.*\bphase:\s*'?(3|4|response)\b|^SecResponseBodyAccess\s+"?On\b`)

// forbidden lists directives that write or read files of this machine, or fetch something. The
// gateway refuses them with a reason; this list protects an agent that others can reach.
var forbidden = map[string]bool{
	"secauditlogstoragedir":          true,
	"secauditlogtype":                true,
	"secdatadir":                     true,
	"secdebuglog":                    true,
	"secignorerulecompilationerrors": true,
	"secremoterules":                 true,
	"secrulescript":                  true,
	"secuploaddir":                   true,
}

// forbiddenInRule matches actions and operators that run programs, or send queries to other
// machines.
var forbiddenInRule = regexp.MustCompile(`(?i)\bexec:|@inspectFile\b|@rbl\b`)

// compileRules compiles directives. Include finds only the embedded files:
// @coraza.conf-recommended, @crs-setup.conf.example and @owasp_crs/*.conf.
func compileRules(text, hash string, logger *slog.Logger) (*ruleSet, error) {
	if err := check(text); err != nil {
		return nil, err
	}
	config := coraza.NewWAFConfig().
		WithRootFS(coreruleset.FS).
		WithErrorCallback(func(match types.MatchedRule) { logMatch(logger, hash, match) }).
		WithDirectives(text)
	waf, err := coraza.NewWAF(config)
	if err != nil {
		return nil, err
	}
	return &ruleSet{waf: waf, wantsResponse: slices.ContainsFunc(directives(text), ofResponse.MatchString)}, nil
}

// directives returns the lines of a text without indentation. Continued lines are joined, and
// comments are empty.
func directives(text string) []string {
	lines := strings.Split(strings.ReplaceAll(text, "\\\n", " "), "\n")
	for number, line := range lines {
		lines[number] = strings.TrimSpace(line)
		if strings.HasPrefix(lines[number], "#") {
			lines[number] = ""
		}
	}
	return lines
}

// check refuses directives that reach outside of the agent.
func check(text string) error {
	for number, line := range directives(text) {
		name, argument, _ := strings.Cut(line, " ")
		argument = strings.Trim(strings.TrimSpace(argument), `"`)
		directive := strings.ToLower(name)
		switch {
		case forbidden[directive],
			directive == "include" && !strings.HasPrefix(argument, "@"),
			directive == "secauditlog" && argument != "/dev/stdout" && argument != "/dev/stderr":
			return fmt.Errorf("line %d: the directive %s %s is not permitted", number+1, name, argument)
		case strings.HasPrefix(directive, "sec") && forbiddenInRule.MatchString(line):
			return fmt.Errorf("line %d: %s is not permitted in %s", number+1, forbiddenInRule.FindString(line), name)
		}
	}
	return nil
}

// logMatch writes one line for each rule that matched and is to be logged.
func logMatch(logger *slog.Logger, hash string, match types.MatchedRule) {
	logger.Warn("rule matched",
		"rule", match.Rule().ID(),
		"message", match.Message(),
		"data", match.Data(),
		"severity", match.Rule().Severity().String(),
		"denied", match.Disruptive(),
		"client", match.ClientIPAddress(),
		"uri", match.URI(),
		"transaction", match.TransactionID(),
		"configuration", short(hash),
	)
}
