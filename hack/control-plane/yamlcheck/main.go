// Command yamlcheck tells how the Go programs of the Kubernetes world (kubectl, Flux, Argo CD, Helm)
// read a YAML document: they go through sigs.k8s.io/yaml.
//
// It reads records from standard input until that ends. A record is the length of a document in
// bytes, as a decimal number, a newline, and then that many bytes: the document. For each record
// it writes one line: the document as compact JSON, or
//
//	!error: <message>
//
// Keys that occur twice in one mapping are an error. Of a record that holds several documents only
// the first is read. No JSON text begins with "!", so the two kinds of line cannot be mistaken for
// each other.
//
// Whenever all input that has arrived is answered, the answers are flushed: a caller may send one
// document and wait for its line. One that sends many at once has to read while it writes, else
// both wait for each other with full pipes.
package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"sigs.k8s.io/yaml"
)

// Far more than etcd stores of one object; a longer record means that the two sides are out of step.
const maxLength = 64 << 20

func main() {
	if err := run(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "yamlcheck:", err)
		os.Exit(1)
	}
}

func run(stdin io.Reader, stdout io.Writer) error {
	in := bufio.NewReaderSize(stdin, 1<<20)
	out := bufio.NewWriterSize(stdout, 1<<20)
	for {
		document, err := readRecord(in)
		if err == io.EOF {
			return out.Flush()
		}
		if err != nil {
			return errors.Join(out.Flush(), err)
		}
		out.WriteString(answer(document))
		out.WriteByte('\n')
		if in.Buffered() == 0 {
			if err := out.Flush(); err != nil {
				return err
			}
		}
	}
}

// readRecord gives io.EOF only at the end of a whole record.
func readRecord(in *bufio.Reader) ([]byte, error) {
	line, err := in.ReadString('\n')
	if err == io.EOF && line == "" {
		return nil, io.EOF
	}
	if err != nil {
		return nil, fmt.Errorf("read the length of a record: %w", unexpected(err))
	}
	length, err := strconv.ParseUint(strings.TrimSuffix(line, "\n"), 10, 32)
	if err != nil {
		return nil, fmt.Errorf("the length of a record is not a number: %w", err)
	}
	if length > maxLength {
		return nil, fmt.Errorf("a record of %d bytes is longer than %d", length, maxLength)
	}
	document := make([]byte, length)
	if _, err := io.ReadFull(in, document); err != nil {
		return nil, fmt.Errorf("read a document of %d bytes: %w", length, unexpected(err))
	}
	return document, nil
}

// unexpected turns an end of input into an error that says it came too early.
func unexpected(err error) error {
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	return err
}

// answer gives one line, without its newline. The YAML library is known to panic on some broken
// input; one document must not take the others with it.
func answer(document []byte) (line string) {
	defer func() {
		if r := recover(); r != nil {
			line = failure(fmt.Sprint("panic: ", r))
		}
	}()
	json, err := yaml.YAMLToJSONStrict(document)
	if err != nil {
		return failure(err.Error())
	}
	return string(json)
}

func failure(message string) string {
	return "!error: " + strings.Join(strings.Fields(message), " ")
}
