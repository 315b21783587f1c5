set(image_sources
    image/pixels.c image/jpeg.c image/png.c image/decode.c image/resize.c image/colour.c image/warp.c
    image/random_augment.c image/recipe.c image/render.c image/views.c
    image/archive.c image/collection.c image/classes.c image/collect.c image/folder.c image/tar.c image/cifar.c
    image/idx.c image/images.c image/read.c)
