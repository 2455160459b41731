// Command images builds container images of Go programs with ko. An image consists of a base image and a static
// binary, and has an SBOM. Two builds of the same commit are identical, also on different machines.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"
	"os"
	"os/signal"
	"runtime"
	"strings"
)

func main() {
	log.SetFlags(0)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		log.Fatal("images: ", err)
	}
}

func run(ctx context.Context, args []string) error {
	var o options
	var platforms string
	fs := flag.NewFlagSet("images", flag.ExitOnError)
	fs.Usage = func() {
		fmt.Fprintln(fs.Output(), "images [flags] PACKAGE... builds an image of each main package; it is named by the package's folder.")
		fs.PrintDefaults()
	}
	fs.StringVar(&o.source, "source", "../..", "folder of the module that the packages belong to")
	fs.StringVar(&o.base, "base", "gcr.io/distroless/static:nonroot", "image to build upon; scratch needs no registry")
	fs.StringVar(&platforms, "platform", "linux/"+runtime.GOARCH, "platforms, separated by commas; several can only be pushed")
	fs.StringVar(&o.repository, "repository", "ghcr.io/mehdiazizian/liqo-resource-broker", "prefix of the images' names")
	fs.StringVar(&o.tag, "tag", "dev", "tag of the images")
	fs.StringVar(&o.version, "version", "", "version that the programs report and the images are labelled with; the tag if empty")
	fs.StringVar(&o.revision, "revision", "", "commit that the images are labelled with")
	fs.Int64Var(&o.created, "created", 0, "when that commit was made, in seconds since 1970: the images' date")
	fs.BoolVar(&o.push, "push", false, "push the images instead of writing tarballs")
	fs.StringVar(&o.out, "out", "../../dist", "folder for tarballs, SBOMs, and digests of what was pushed")
	if err := fs.Parse(args); err != nil {
		return err
	}
	o.platforms = strings.Split(platforms, ",")
	for _, path := range fs.Args() {
		if err := o.build(ctx, path); err != nil {
			return fmt.Errorf("image of %q: %w", path, err)
		}
	}
	return nil
}
