// Command criimage makes a node's container runtime pull or remove images, the way its kubelet would.
// (ctr works outside CRI: it keeps the layers it has unpacked, so an image takes its space twice,
// and it removes one of the three names that CRI gives an image.)
package main

import (
	"context"
	"fmt"
	"os"
	"time"

	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	criclient "k8s.io/cri-client/pkg"
)

// Longer than any image takes; the caller has a limit of its own.
const patience = time.Hour

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(arguments []string) error {
	if len(arguments) < 3 {
		return fmt.Errorf("usage: criimage pull|remove ENDPOINT IMAGE...")
	}
	service, err := criclient.NewRemoteImageService(arguments[1], patience, nil, nil)
	if err != nil {
		return err
	}
	for _, image := range arguments[2:] {
		if err := apply(service, arguments[0], &runtimeapi.ImageSpec{Image: image}); err != nil {
			return fmt.Errorf("%s: %w", image, err)
		}
	}
	return nil
}

func apply(service internalapi.ImageManagerService, verb string, image *runtimeapi.ImageSpec) error {
	if verb == "remove" {
		return service.RemoveImage(context.Background(), image)
	}
	_, err := service.PullImage(context.Background(), image, nil, nil)
	return err
}
