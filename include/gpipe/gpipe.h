/* gpipe: pipeline-parallel training of neural networks. One header for everything. */
#ifndef GPIPE_GPIPE_H
#define GPIPE_GPIPE_H

#include "gpipe/checkpoint.h"
#include "gpipe/data.h"
#include "gpipe/device.h"
#include "gpipe/exchange.h"
#include "gpipe/graph.h"
#include "gpipe/images.h"
#include "gpipe/layer.h"
#include "gpipe/pipeline.h"
#include "gpipe/status.h"
#include "gpipe/tensor.h"
#include "gpipe/train.h"
#include "gpipe/words.h"

#endif
