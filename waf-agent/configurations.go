package main

import (
	"container/list"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"io"
	"log/slog"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"
)

// configurations keeps compiled configurations by the SHA-256 of their text. Each is compiled once;
// a refused one is kept with its error.
type configurations struct {
	most   int
	logger *slog.Logger

	mutex sync.Mutex
	// byHash holds the elements of order, whose values are *configuration; most recent first.
	byHash map[string]*list.Element
	order  *list.List
}

// configuration is one text.
type configuration struct {
	hash string
	// compiled returns the rules. The first caller compiles them, and others wait for it.
	compiled func() (*ruleSet, error)
}

func newConfigurations(most int, logger *slog.Logger) *configurations {
	return &configurations{most: most, logger: logger, byHash: map[string]*list.Element{}, order: list.New()}
}

// put returns the hash of a text once it is compiled.
func (c *configurations) put(text string) (string, error) {
	sum := sha256.Sum256([]byte(text))
	hash := hex.EncodeToString(sum[:])
	_, err := c.obtain(hash, text).compiled()
	return hash, err
}

// get returns the rules of a hash; nil if the agent does not have them.
func (c *configurations) get(hash string) *ruleSet {
	c.mutex.Lock()
	element, ok := c.byHash[hash]
	if ok {
		c.order.MoveToFront(element)
	}
	c.mutex.Unlock()
	if !ok {
		return nil
	}
	rules, _ := element.Value.(*configuration).compiled()
	return rules
}

// obtain returns the entry of a text, and drops the least recently used one beyond the limit.
func (c *configurations) obtain(hash, text string) *configuration {
	c.mutex.Lock()
	defer c.mutex.Unlock()
	if element, ok := c.byHash[hash]; ok {
		c.order.MoveToFront(element)
		return element.Value.(*configuration)
	}
	entry := &configuration{hash: hash, compiled: sync.OnceValues(func() (*ruleSet, error) {
		began := time.Now()
		rules, err := compileRules(text, hash, c.logger)
		c.logger.Info("compiled a configuration", "configuration", short(hash), "duration", time.Since(began), "error", err)
		return rules, err
	})}
	c.byHash[hash] = c.order.PushFront(entry)
	for c.order.Len() > c.most {
		oldest := c.order.Remove(c.order.Back()).(*configuration)
		delete(c.byHash, oldest.hash)
		go oldest.close()
	}
	return entry
}

// close releases what the engine caches for the rules. Transactions in progress keep theirs.
func (entry *configuration) close() {
	rules, _ := entry.compiled()
	if rules == nil {
		return
	}
	if closer, ok := rules.waf.(io.Closer); ok {
		_ = closer.Close()
	}
}

// short returns the part of a hash that identifies it in logs.
func short(hash string) string {
	return hash[:12]
}

// configurationsService describes the service of configurations.proto, without generated code.
var configurationsService = grpc.ServiceDesc{
	ServiceName: "sluice.waf.v1.Configurations",
	HandlerType: (*any)(nil),
	Methods: []grpc.MethodDesc{{
		MethodName: "Put",
		Handler: func(service any, _ context.Context, decode func(any) error, _ grpc.UnaryServerInterceptor) (any, error) {
			text := new(wrapperspb.StringValue)
			if err := decode(text); err != nil {
				return nil, err
			}
			hash, err := service.(*configurations).put(text.GetValue())
			if err != nil {
				return nil, status.Error(codes.InvalidArgument, err.Error())
			}
			return wrapperspb.String(hash), nil
		},
	}},
	Metadata: "configurations.proto",
}
