package main

import (
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/corazawaf/coraza/v3/types"
	corev3 "github.com/envoyproxy/go-control-plane/envoy/config/core/v3"
	filterv3 "github.com/envoyproxy/go-control-plane/envoy/extensions/filters/http/ext_proc/v3"
	extproc "github.com/envoyproxy/go-control-plane/envoy/service/ext_proc/v3"
	typev3 "github.com/envoyproxy/go-control-plane/envoy/type/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/structpb"
)

const (
	// configurationKey is the metadata with the hash of the configuration.
	configurationKey = "sluice-waf-configuration"
	// attributesKey is the name under which Envoy sends attributes.
	attributesKey = "envoy.filters.http.ext_proc"
)

// processor serves ext_proc: one stream is one request.
type processor struct {
	extproc.UnimplementedExternalProcessorServer
	configurations *configurations
	logger         *slog.Logger
}

// inspection is the state of one request.
type inspection struct {
	rules *ruleSet
	tx    types.Transaction
	// bodyDone is set once the rules about the request's body have run.
	bodyDone bool
	// responseDone is set once no rule needs more of the response.
	responseDone bool
}

// Process inspects one request.
func (p *processor) Process(stream extproc.ExternalProcessor_ProcessServer) error {
	hash := first(metadata.ValueFromIncomingContext(stream.Context(), configurationKey))
	rules := p.configurations.get(hash)
	if rules == nil {
		return status.Errorf(codes.FailedPrecondition, "the configuration %q is not known", hash)
	}
	inspection := &inspection{rules: rules}
	defer inspection.end(p.logger)
	for {
		request, err := stream.Recv()
		if errors.Is(err, io.EOF) || stream.Context().Err() != nil {
			return nil
		}
		if err != nil {
			return err
		}
		response, err := inspection.answer(request)
		if err != nil {
			return err
		}
		if err := stream.Send(response); err != nil {
			return err
		}
		if response.GetImmediateResponse() != nil {
			return nil
		}
	}
}

// answer handles one message. The head comes first, once.
func (i *inspection) answer(request *extproc.ProcessingRequest) (*extproc.ProcessingResponse, error) {
	head := request.GetRequestHeaders()
	if (head == nil) == (i.tx == nil) {
		return nil, status.Error(codes.InvalidArgument, "the stream must begin with the head of one request")
	}
	switch {
	case head != nil:
		return i.requestHead(head, request.GetAttributes()[attributesKey])
	case request.GetRequestBody() != nil:
		return i.requestBody(request.GetRequestBody())
	case request.GetResponseHeaders() != nil:
		return i.responseHead(request.GetResponseHeaders())
	case request.GetResponseBody() != nil:
		return i.responseBody(request.GetResponseBody())
	default:
		return nil, status.Error(codes.InvalidArgument, "the message is of a kind that was not requested")
	}
}

// requestHead runs the rules about the head, and those about the body if none follows.
func (i *inspection) requestHead(message *extproc.HttpHeaders, attributes *structpb.Struct) (*extproc.ProcessingResponse, error) {
	i.begin(message, attributes)
	interruption := i.tx.ProcessRequestHeaders()
	if interruption == nil && (message.GetEndOfStream() || !i.tx.IsRequestBodyAccessible()) {
		i.bodyDone = true
		var err error
		if interruption, err = i.tx.ProcessRequestBody(); err != nil {
			return nil, failed(err)
		}
	}
	if interruption != nil {
		return i.deny(interruption), nil
	}
	return &extproc.ProcessingResponse{
		Response:     &extproc.ProcessingResponse_RequestHeaders{RequestHeaders: &extproc.HeadersResponse{}},
		ModeOverride: i.wanted(),
	}, nil
}

// begin creates the transaction from the head.
func (i *inspection) begin(message *extproc.HttpHeaders, attributes *structpb.Struct) {
	attribute := func(name string) string { return attributes.GetFields()[name].GetStringValue() }
	if id := attribute("request.id"); id != "" {
		i.tx = i.rules.waf.NewTransactionWithID(id)
	} else {
		i.tx = i.rules.waf.NewTransaction()
	}
	client, clientPort := addressAndPort(attribute("source.address"))
	serverPort := int(attributes.GetFields()["destination.port"].GetNumberValue())
	i.tx.ProcessConnection(client, clientPort, "", serverPort)
	pseudo := map[string]string{}
	for _, field := range message.GetHeaders().GetHeaders() {
		if name := field.GetKey(); strings.HasPrefix(name, ":") {
			pseudo[name] = value(field)
		} else {
			i.tx.AddRequestHeader(name, value(field))
		}
	}
	host := pseudo[":authority"]
	if host != "" {
		i.tx.AddRequestHeader("Host", host)
	}
	name := host
	if bare, _, err := net.SplitHostPort(host); err == nil {
		name = bare
	}
	i.tx.SetServerName(name)
	i.tx.ProcessURI(pseudo[":path"], pseudo[":method"], attribute("request.protocol"))
}

// requestBody takes a piece of the request's body.
func (i *inspection) requestBody(message *extproc.HttpBody) (*extproc.ProcessingResponse, error) {
	interruption, err := takeBody(message, &i.bodyDone, i.tx.WriteRequestBody, i.tx.ProcessRequestBody)
	if err != nil {
		return nil, err
	}
	if interruption != nil {
		return i.deny(interruption), nil
	}
	return &extproc.ProcessingResponse{
		Response:     &extproc.ProcessingResponse_RequestBody{RequestBody: &extproc.BodyResponse{}},
		ModeOverride: i.wanted(),
	}, nil
}

// responseHead runs the rules about the head of the response, and those about the body if the rules
// read none.
func (i *inspection) responseHead(message *extproc.HttpHeaders) (*extproc.ProcessingResponse, error) {
	code := 0
	for _, field := range message.GetHeaders().GetHeaders() {
		if field.GetKey() == ":status" {
			code, _ = strconv.Atoi(value(field))
		} else {
			i.tx.AddResponseHeader(field.GetKey(), value(field))
		}
	}
	interruption := i.tx.ProcessResponseHeaders(code, "HTTP/1.1")
	if interruption == nil && (message.GetEndOfStream() || !i.tx.IsResponseBodyAccessible() || !i.tx.IsResponseBodyProcessable()) {
		i.responseDone = true
		var err error
		if interruption, err = i.tx.ProcessResponseBody(); err != nil {
			return nil, failed(err)
		}
	}
	if interruption != nil {
		return i.deny(interruption), nil
	}
	return &extproc.ProcessingResponse{
		Response:     &extproc.ProcessingResponse_ResponseHeaders{ResponseHeaders: &extproc.HeadersResponse{}},
		ModeOverride: i.wanted(),
	}, nil
}

// responseBody takes a piece of the response's body.
func (i *inspection) responseBody(message *extproc.HttpBody) (*extproc.ProcessingResponse, error) {
	interruption, err := takeBody(message, &i.responseDone, i.tx.WriteResponseBody, i.tx.ProcessResponseBody)
	if err != nil {
		return nil, err
	}
	if interruption != nil {
		return i.deny(interruption), nil
	}
	return &extproc.ProcessingResponse{
		Response:     &extproc.ProcessingResponse_ResponseBody{ResponseBody: &extproc.BodyResponse{}},
		ModeOverride: i.wanted(),
	}, nil
}

// takeBody takes a piece of a body. Rules run when the body is whole, or as large as they read;
// done is set then.
func takeBody(
	message *extproc.HttpBody,
	done *bool,
	write func([]byte) (*types.Interruption, int, error),
	process func() (*types.Interruption, error),
) (*types.Interruption, error) {
	if *done {
		return nil, nil
	}
	interruption, written, err := write(message.GetBody())
	if err != nil {
		return nil, failed(err)
	}
	// Less is taken of a body that exceeds its limit, with ProcessPartial.
	if interruption == nil && (message.GetEndOfStream() || written < len(message.GetBody())) {
		*done = true
		if interruption, err = process(); err != nil {
			return nil, failed(err)
		}
	}
	return interruption, nil
}

// wanted returns which parts of the request and the response the rules still need.
func (i *inspection) wanted() *filterv3.ProcessingMode {
	mode := &filterv3.ProcessingMode{
		ResponseHeaderMode: filterv3.ProcessingMode_SKIP,
		RequestBodyMode:    filterv3.ProcessingMode_STREAMED,
	}
	if i.bodyDone {
		mode.RequestBodyMode = filterv3.ProcessingMode_NONE
	}
	if i.rules.wantsResponse {
		mode.ResponseHeaderMode = filterv3.ProcessingMode_SEND
		if !i.responseDone {
			mode.ResponseBodyMode = filterv3.ProcessingMode_STREAMED
		}
	}
	return mode
}

// deny returns the answer of a rule that has stopped the request.
func (i *inspection) deny(interruption *types.Interruption) *extproc.ProcessingResponse {
	code := interruption.Status
	answer := &extproc.ImmediateResponse{Details: "rule " + strconv.Itoa(interruption.RuleID)}
	if interruption.Action == "redirect" {
		if code < 300 || code > 399 {
			code = http.StatusFound
		}
		location := &corev3.HeaderValue{Key: "location", RawValue: []byte(interruption.Data)}
		answer.Headers = &extproc.HeaderMutation{SetHeaders: []*corev3.HeaderValueOption{{Header: location}}}
	}
	if code < 200 || code > 599 {
		code = http.StatusForbidden
	}
	answer.Status = &typev3.HttpStatus{Code: typev3.StatusCode(code)}
	return &extproc.ProcessingResponse{
		Response: &extproc.ProcessingResponse_ImmediateResponse{ImmediateResponse: answer},
	}
}

// end writes the audit log, if it is on, and releases the transaction.
func (i *inspection) end(logger *slog.Logger) {
	if i.tx == nil {
		return
	}
	i.tx.ProcessLogging()
	if err := i.tx.Close(); err != nil {
		logger.Error("a transaction cannot be closed", "error", err)
	}
}

func failed(err error) error {
	return status.Errorf(codes.Internal, "the engine fails: %v", err)
}

// value returns the value of a field, which has one of two forms.
func value(field *corev3.HeaderValue) string {
	if raw := field.GetRawValue(); len(raw) > 0 {
		return string(raw)
	}
	return field.GetValue()
}

// addressAndPort splits ADDRESS:PORT.
func addressAndPort(address string) (string, int) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return address, 0
	}
	number, _ := strconv.Atoi(port)
	return host, number
}

func first(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}
