// A helper program in Go: registers in its own memory, by the line protocol.
package main

import (
	"bufio"
	"encoding/json"
	"os"
)

type request struct {
	ID    int             `json:"id"`
	Type  string          `json:"type"`
	F     string          `json:"f"`
	Key   json.RawMessage `json:"key"`
	Value json.RawMessage `json:"value"`
}

type answer struct {
	ID       int             `json:"id"`
	Type     string          `json:"type"`
	Protocol int             `json:"protocol,omitempty"`
	Value    json.RawMessage `json:"value,omitempty"`
	Error    string          `json:"error,omitempty"`
}

func main() {
	values := map[string]json.RawMessage{}
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 16<<20)
	out := json.NewEncoder(os.Stdout)
	for lines.Scan() {
		var asked request
		if err := json.Unmarshal(lines.Bytes(), &asked); err != nil {
			os.Exit(1)
		}
		told := answer{ID: asked.ID, Type: "ok"}
		switch asked.Type {
		case "hello":
			told.Type, told.Protocol = "hello", 1
		case "invoke":
			switch asked.F {
			case "write":
				values[string(asked.Key)] = asked.Value
			case "read":
				told.Value = values[string(asked.Key)]
			default:
				told.Type, told.Error = "fail", "unknown operation "+asked.F
			}
		}
		if err := out.Encode(told); err != nil {
			os.Exit(1)
		}
	}
}
