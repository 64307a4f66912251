package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

const engineOn = "SecRuleEngine On\nSecRequestBodyAccess On\n"

// buffer is a log that several goroutines write.
type buffer struct {
	mutex sync.Mutex
	text  bytes.Buffer
}

func (b *buffer) Write(p []byte) (int, error) {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.text.Write(p)
}

func (b *buffer) String() string {
	b.mutex.Lock()
	defer b.mutex.Unlock()
	return b.text.String()
}

// agent is a running server with a client.
type agent struct {
	t       *testing.T
	address string
	client  *grpc.ClientConn
	log     *buffer
}

func start(t *testing.T, most int) *agent {
	t.Helper()
	log := &buffer{}
	logger := slog.New(slog.NewJSONHandler(log, nil))
	path := filepath.Join(t.TempDir(), "agent")
	listener, err := bind("unix:" + path)
	if err != nil {
		t.Fatal(err)
	}
	server := newServer(newConfigurations(most, logger), logger)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(server.Stop)
	dial := func(ctx context.Context, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "unix", path)
	}
	client, err := grpc.NewClient("passthrough:agent", grpc.WithContextDialer(dial), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = client.Close() })
	return &agent{t: t, address: "unix:" + path, client: client, log: log}
}

func (a *agent) put(text string) (string, error) {
	hash := new(wrapperspb.StringValue)
	err := a.client.Invoke(a.t.Context(), "/sluice.waf.v1.Configurations/Put", wrapperspb.String(text), hash)
	return hash.GetValue(), err
}

func (a *agent) mustPut(text string) string {
	a.t.Helper()
	hash, err := a.put(text)
	if err != nil {
		a.t.Fatal(err)
	}
	return hash
}

func (a *agent) stream(hash string) extproc.ExternalProcessor_ProcessClient {
	a.t.Helper()
	ctx := metadata.AppendToOutgoingContext(a.t.Context(), configurationKey, hash)
	stream, err := extproc.NewExternalProcessorClient(a.client).Process(ctx)
	if err != nil {
		a.t.Fatal(err)
	}
	return stream
}

func head(path string, ends bool, fields ...string) *extproc.ProcessingRequest {
	all := []string{":method", "POST", ":path", path, ":authority", "shop.example:80", ":scheme", "http"}
	headers := &corev3.HeaderMap{}
	all = append(all, fields...)
	for at := 0; at < len(all); at += 2 {
		headers.Headers = append(headers.Headers, &corev3.HeaderValue{Key: all[at], RawValue: []byte(all[at+1])})
	}
	attributes, _ := structpb.NewStruct(map[string]any{
		"source.address": "192.0.2.7:1234", "destination.port": 80.0,
		"request.protocol": "HTTP/1.1", "request.id": "tx-7",
	})
	return &extproc.ProcessingRequest{
		Request:    &extproc.ProcessingRequest_RequestHeaders{RequestHeaders: &extproc.HttpHeaders{Headers: headers, EndOfStream: ends}},
		Attributes: map[string]*structpb.Struct{attributesKey: attributes},
	}
}

func body(text string, ends bool) *extproc.ProcessingRequest {
	return &extproc.ProcessingRequest{
		Request: &extproc.ProcessingRequest_RequestBody{RequestBody: &extproc.HttpBody{Body: []byte(text), EndOfStream: ends}},
	}
}

func responseHead(code string, fields ...string) *extproc.ProcessingRequest {
	headers := &corev3.HeaderMap{Headers: []*corev3.HeaderValue{{Key: ":status", Value: code}}}
	for at := 0; at < len(fields); at += 2 {
		headers.Headers = append(headers.Headers, &corev3.HeaderValue{Key: fields[at], Value: fields[at+1]})
	}
	return &extproc.ProcessingRequest{
		Request: &extproc.ProcessingRequest_ResponseHeaders{ResponseHeaders: &extproc.HttpHeaders{Headers: headers}},
	}
}

func responseBody(text string, ends bool) *extproc.ProcessingRequest {
	return &extproc.ProcessingRequest{
		Request: &extproc.ProcessingRequest_ResponseBody{ResponseBody: &extproc.HttpBody{Body: []byte(text), EndOfStream: ends}},
	}
}

// ask sends messages one after another and returns the last answer.
func (a *agent) ask(hash string, messages ...*extproc.ProcessingRequest) *extproc.ProcessingResponse {
	a.t.Helper()
	stream := a.stream(hash)
	var last *extproc.ProcessingResponse
	for _, message := range messages {
		if err := stream.Send(message); err != nil {
			a.t.Fatal(err)
		}
		var err error
		if last, err = stream.Recv(); err != nil {
			a.t.Fatal(err)
		}
	}
	if err := stream.CloseSend(); err != nil {
		a.t.Fatal(err)
	}
	return last
}

func code(response *extproc.ProcessingResponse) int {
	return int(response.GetImmediateResponse().GetStatus().GetCode())
}

func TestCoreRulesDenyOnlyWhenTheEngineIsOn(t *testing.T) {
	agent := start(t, 4)
	rules := "Include @coraza.conf-recommended\nInclude @crs-setup.conf.example\nInclude @owasp_crs/*.conf\n"
	detects := agent.mustPut(rules)
	enforces := agent.mustPut("Include @coraza.conf-recommended\nSecRuleEngine On\nInclude @crs-setup.conf.example\nInclude @owasp_crs/*.conf\n")
	browser := []string{"user-agent", "Mozilla/5.0", "accept", "*/*"}
	form := append([]string{"content-type", "application/x-www-form-urlencoded", "content-length", "40"}, browser...)
	attack := head("/?id=1'%20OR%20'1'='1", true, append([]string{"content-length", "0"}, browser...)...)
	if got := code(agent.ask(enforces, attack)); got != 403 {
		t.Errorf("SQL injection: %d", got)
	}
	if got := code(agent.ask(detects, attack)); got != 0 {
		t.Errorf("SQL injection, only detected: %d", got)
	}
	if !strings.Contains(agent.log.String(), `"rule":942100`) || !strings.Contains(agent.log.String(), `"transaction":"tx-7"`) {
		t.Errorf("the match is not logged: %s", agent.log)
	}
	script := []*extproc.ProcessingRequest{head("/", false, form...), body("comment=<script>al", false), body("ert(1)</script>", true)}
	if got := code(agent.ask(enforces, script...)); got != 403 {
		t.Errorf("script in the body: %d", got)
	}
	if got := code(agent.ask(enforces, head("/", false, form...), body("comment=hello", true))); got != 0 {
		t.Errorf("an honest body: %d", got)
	}
}

func TestAnswersAreThoseOfTheRule(t *testing.T) {
	agent := start(t, 4)
	hash := agent.mustPut(engineOn + `SecRule REQUEST_URI "@contains /teapot" "id:1,phase:1,deny,status:418"
SecRule REQUEST_URI "@contains /away" "id:2,phase:1,redirect:https://other.example/,status:307"
SecRule REQUEST_URI "@contains /drop" "id:3,phase:1,drop"
SecRule REMOTE_ADDR "@ipMatch 192.0.2.7" "id:4,phase:1,deny,status:451,chain"
SecRule SERVER_NAME "@streq shop.example" "chain"
SecRule REQUEST_HEADERS:X-A "@streq b"`)
	if got := code(agent.ask(hash, head("/teapot", true))); got != 418 {
		t.Errorf("status: %d", got)
	}
	away := agent.ask(hash, head("/away", true))
	if got := string(away.GetImmediateResponse().GetHeaders().GetSetHeaders()[0].GetHeader().GetRawValue()); code(away) != 307 || got != "https://other.example/" {
		t.Errorf("redirect: %v", away)
	}
	if got := code(agent.ask(hash, head("/drop", true))); got != 403 {
		t.Errorf("drop: %d", got)
	}
	if got := code(agent.ask(hash, head("/", true, "x-a", "b"))); got != 451 {
		t.Errorf("client, server and field: %d", got)
	}
	if got := code(agent.ask(hash, head("/", true))); got != 0 {
		t.Errorf("other requests: %d", got)
	}
}

func TestTheAgentRequestsOnlyWhatRulesNeed(t *testing.T) {
	agent := start(t, 4)
	mode := func(text string, ends bool) *filterv3.ProcessingMode {
		return agent.ask(agent.mustPut(text), head("/", ends)).GetModeOverride()
	}
	if got := mode(engineOn, false); got.GetRequestBodyMode() != filterv3.ProcessingMode_STREAMED || got.GetResponseHeaderMode() != filterv3.ProcessingMode_SKIP {
		t.Errorf("a body follows: %v", got)
	}
	if got := mode(engineOn, true); got.GetRequestBodyMode() != filterv3.ProcessingMode_NONE {
		t.Errorf("no body follows: %v", got)
	}
	if got := mode("SecRuleEngine On\n", false); got.GetRequestBodyMode() != filterv3.ProcessingMode_NONE {
		t.Errorf("without access to bodies: %v", got)
	}
	response := engineOn + `SecRule RESPONSE_HEADERS:X-Leak "@rx ." "id:1,phase:3,deny,status:502"`
	if got := mode(response, true); got.GetResponseHeaderMode() != filterv3.ProcessingMode_SEND {
		t.Errorf("with a rule about responses: %v", got)
	}
	hash := agent.mustPut(response)
	if got := code(agent.ask(hash, head("/", true), responseHead("200", "x-leak", "1"))); got != 502 {
		t.Errorf("response that leaks: %d", got)
	}
	if got := code(agent.ask(hash, head("/", true), responseHead("200"))); got != 0 {
		t.Errorf("other response: %d", got)
	}
}

func TestMessagesOfGRPCAreReadIfARuleChoosesTheProcessor(t *testing.T) {
	agent := start(t, 4)
	raw := "SecRule REQUEST_HEADERS:Content-Type \"@beginsWith application/grpc\" \"id:1,phase:1,pass,nolog,ctl:requestBodyProcessor=RAW\"\n"
	deny := "SecRule REQUEST_BODY \"@contains evil\" \"id:2,phase:2,deny\"\n"
	except := "SecRule REQUEST_FILENAME \"@streq /s/Chat\" \"id:3,phase:1,pass,nolog,ctl:requestBodyAccess=Off\"\n"
	head := func(path string) *extproc.ProcessingRequest {
		return head(path, false, "content-type", "application/grpc")
	}
	evil, good := "\x00\x00\x00\x00\x04evil", "\x00\x00\x00\x00\x04good"
	hash := agent.mustPut(engineOn + raw + deny + except)
	if got := code(agent.ask(hash, head("/s/m"), body(good, false), body(evil, true))); got != 403 {
		t.Errorf("the second message: %d", got)
	}
	if got := code(agent.ask(hash, head("/s/m"), body(good, false), body(good, true))); got != 0 {
		t.Errorf("harmless messages: %d", got)
	}
	if mode := agent.ask(hash, head("/s/m")).GetModeOverride().GetRequestBodyMode(); mode != filterv3.ProcessingMode_STREAMED {
		t.Errorf("the body is not requested: %v", mode)
	}
	if mode := agent.ask(hash, head("/s/Chat")).GetModeOverride().GetRequestBodyMode(); mode != filterv3.ProcessingMode_NONE {
		t.Errorf("the body of an excluded method is requested: %v", mode)
	}
	// Without the processor, a rule about the body matches nothing (docs/waf-bodies.md).
	hash = agent.mustPut(engineOn + deny)
	if got := code(agent.ask(hash, head("/s/m"), body(evil, true))); got != 0 {
		t.Errorf("without a processor: %d", got)
	}
}

func TestABodyBeyondTheLimitIsRefusedOrInspectedInPart(t *testing.T) {
	agent := start(t, 4)
	rule := "SecRequestBodyLimit 8\nSecRequestBodyInMemoryLimit 8\nSecRule REQUEST_BODY \"@contains evil\" \"id:1,phase:2,deny\"\n"
	form := []string{"content-type", "application/x-www-form-urlencoded"}
	long := []*extproc.ProcessingRequest{head("/", false, form...), body("a=123456789", true)}
	if got := code(agent.ask(agent.mustPut(engineOn+rule+"SecRequestBodyLimitAction Reject"), long...)); got != 413 {
		t.Errorf("Reject: %d", got)
	}
	partial := agent.mustPut(engineOn + rule + "SecRequestBodyLimitAction ProcessPartial")
	last := agent.ask(partial, long...)
	if code(last) != 0 || last.GetModeOverride().GetRequestBodyMode() != filterv3.ProcessingMode_NONE {
		t.Errorf("ProcessPartial: %v", last)
	}
	if got := code(agent.ask(partial, head("/", false, form...), body("a=evil&b=123", false))); got != 403 {
		t.Errorf("the part that is read: %d", got)
	}
}

const leak = "SecResponseBodyAccess On\nSecResponseBodyMimeType text/plain\nSecRule RESPONSE_BODY \"@contains secret\" \"id:1,phase:4,deny,status:502\"\n"

func TestABodyOfAResponseIsInspectedIfADirectiveRequestsIt(t *testing.T) {
	agent := start(t, 8)
	hash := agent.mustPut(engineOn + leak)
	plain := responseHead("200", "content-type", "text/plain")
	mode := agent.ask(hash, head("/", true), plain).GetModeOverride()
	if mode.GetResponseBodyMode() != filterv3.ProcessingMode_STREAMED {
		t.Errorf("the body is not requested: %v", mode)
	}
	if got := code(agent.ask(hash, head("/", true), plain, responseBody("a sec", false), responseBody("ret", true))); got != 502 {
		t.Errorf("got %d", got)
	}
	if got := code(agent.ask(hash, head("/", true), plain, responseBody("nothing", true))); got != 0 {
		t.Errorf("got %d", got)
	}
	image := agent.ask(hash, head("/", true), responseHead("200", "content-type", "image/png"))
	if image.GetModeOverride().GetResponseBodyMode() != filterv3.ProcessingMode_NONE {
		t.Error("the body of an image is requested")
	}
}

func TestABodyOfAResponseBeyondTheLimitIsRefusedOrInspectedInPart(t *testing.T) {
	agent := start(t, 8)
	limit := engineOn + leak + "SecResponseBodyLimit 8\nSecResponseBodyLimitAction "
	plain := responseHead("200", "content-type", "text/plain")
	if got := code(agent.ask(agent.mustPut(limit+"Reject\n"), head("/", true), plain, responseBody("far too long", false))); got < 400 {
		t.Errorf("got %d", got)
	}
	last := agent.ask(agent.mustPut(limit+"ProcessPartial\n"), head("/", true), plain, responseBody("far too long: secret", false))
	if code(last) != 0 || last.GetModeOverride().GetResponseBodyMode() != filterv3.ProcessingMode_NONE {
		t.Errorf("got %v", last)
	}
}

func TestResponsesAreRequestedOnlyByDirectivesOfTheTextItself(t *testing.T) {
	agent := start(t, 8)
	for text, wants := range map[string]bool{
		"Include @coraza.conf-recommended\nInclude @owasp_crs/*.conf\n":       false,
		"# SecResponseBodyAccess On\n":                                        false,
		"SecResponseBodyAccess Off\n":                                         false,
		"SecResponseBodyAccess On\n":                                          true,
		"  secrule RESPONSE_STATUS \"@eq 500\" \\\n  \"id:1,phase:3,pass\"\n": true,
		"SecAction \"id:1,phase:'4',pass,nolog\"\n":                           true,
	} {
		mode := agent.ask(agent.mustPut(engineOn+text), head("/", true)).GetModeOverride().GetResponseHeaderMode()
		if (mode == filterv3.ProcessingMode_SEND) != wants {
			t.Errorf("%q: %v", text, mode)
		}
	}
}

func TestConfigurationsAreCompiledOnceAndBounded(t *testing.T) {
	agent := start(t, 2)
	one := agent.mustPut(engineOn + "# one")
	if again := agent.mustPut(engineOn + "# one"); again != one {
		t.Errorf("another hash: %s", again)
	}
	if got := strings.Count(agent.log.String(), "compiled a configuration"); got != 1 {
		t.Errorf("compiled %d times", got)
	}
	agent.mustPut(engineOn + "# two")
	agent.ask(one, head("/", true))
	two := agent.mustPut(engineOn + "# two")
	agent.ask(one, head("/", true))
	agent.mustPut(engineOn + "# three")
	stream := agent.stream(two)
	_ = stream.Send(head("/", true))
	if _, err := stream.Recv(); status.Code(err) != codes.FailedPrecondition {
		t.Errorf("the least recently used configuration: %v", err)
	}
	agent.ask(one, head("/", true))
}

func TestARequestThatCameBeforeTheCompilerLeftAConfigurationEmptyForGood(t *testing.T) {
	all := newConfigurations(2, slog.New(slog.DiscardHandler))
	sum := sha256.Sum256([]byte(engineOn))
	hash := hex.EncodeToString(sum[:])
	all.obtain(hash, engineOn)
	if all.get(hash) == nil {
		t.Fatal("the request did not wait for the rules")
	}
	if _, err := all.put(engineOn); err != nil || all.get(hash) == nil {
		t.Fatal("the configuration has no rules", err)
	}
}

func TestARefusedConfigurationNamesItsDirective(t *testing.T) {
	agent := start(t, 4)
	for _, test := range []struct{ text, name string }{
		{"SecNothing On", "secnothing"},
		{"SecRule ARGS \"@rx (\" \"id:1,deny\"", "secrule"},
		{"SecRule ARGS \"@rx a\" \"id:1,deny\"\nSecRule ARGS \"@rx b\" \"id:1,deny\"", "secrule"},
		{"Include /etc/passwd", "Include /etc/passwd"},
		{"include \"../../etc/passwd\"", "etc/passwd"},
		{"SecAuditLog /var/log/audit.log", "SecAuditLog"},
		{"SecDebugLog /tmp/x", "SecDebugLog"},
		{"SecAction \"id:1,exec:/bin/sh\"", "exec:"},
		{"SecRule FILES \\\n\"@inspectFile /bin/sh\" \"id:1,deny\"", "@inspectFile"},
	} {
		_, err := agent.put(test.text)
		if status.Code(err) != codes.InvalidArgument || !strings.Contains(err.Error(), test.name) {
			t.Errorf("%q: %v", test.text, err)
		}
	}
}

func TestAStreamWithoutItsHeadIsRefused(t *testing.T) {
	agent := start(t, 4)
	hash := agent.mustPut(engineOn)
	for _, messages := range [][]*extproc.ProcessingRequest{
		{body("x", true)},
		{head("/", false), head("/", false)},
	} {
		stream := agent.stream(hash)
		for _, message := range messages {
			_ = stream.Send(message)
		}
		var err error
		for err == nil {
			_, err = stream.Recv()
		}
		if status.Code(err) != codes.InvalidArgument || err == io.EOF {
			t.Errorf("%v", err)
		}
	}
}

func TestAProbeAsksTheAgent(t *testing.T) {
	agent := start(t, 1)
	if err := probe(t.Context(), agent.address); err != nil {
		t.Error(err)
	}
	if probe(t.Context(), agent.address+"x") == nil {
		t.Error("no agent is there")
	}
}
