import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Paths;
import java.nio.file.StandardOpenOption;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import org.apache.flink.api.common.eventtime.WatermarkStrategy;
import org.apache.flink.api.common.functions.OpenContext;
import org.apache.flink.api.common.state.ListState;
import org.apache.flink.api.common.state.ListStateDescriptor;
import org.apache.flink.connector.file.src.FileSource;
import org.apache.flink.core.fs.Path;
import org.apache.flink.runtime.state.FunctionInitializationContext;
import org.apache.flink.runtime.state.FunctionSnapshotContext;
import org.apache.flink.streaming.api.checkpoint.CheckpointedFunction;
import org.apache.flink.streaming.api.environment.StreamExecutionEnvironment;
import org.apache.flink.streaming.api.functions.sink.v2.DiscardingSink;

/** Logistic regression whose state is in checkpoints: COLUMNS PASSES SIZE RATE OUTPUT FILE..., a line an epoch to OUTPUT. */
public class Disturbed {
    private static final int ROWS_PER_RECORD = 5000;

    public static void main(String[] words) throws Exception {
        int columns = Integer.parseInt(words[0]);
        List<Path> paths = new ArrayList<>();
        for (int pass = 0; pass < Integer.parseInt(words[1]); pass++) {
            Arrays.stream(words, 5, words.length).map(Path::new).forEach(paths::add);
        }
        String output = words[4];

        StreamExecutionEnvironment env = StreamExecutionEnvironment.getExecutionEnvironment();
        env.setParallelism(1);
        env.getConfig().enableObjectReuse();
        FileSource<double[]> source = FileSource.forRecordStreamFormat(
                new NpyFormat(columns, ROWS_PER_RECORD), paths.toArray(new Path[0])).build();
        env.fromSource(source, WatermarkStrategy.noWatermarks(), "shards")
                .process(new Kept(columns, Integer.parseInt(words[2]), Double.parseDouble(words[3])))
                .map(epoch -> written(epoch, output))
                .sinkTo(new DiscardingSink<>());
        env.execute("disturbed");
    }

    /** Appends the epoch and when it was, in milliseconds. */
    static Long written(Long epoch, String output) throws IOException {
        String line = epoch + " " + System.currentTimeMillis() + "\n";
        Files.writeString(Paths.get(output), line, StandardOpenOption.CREATE, StandardOpenOption.APPEND);
        return epoch;
    }

    /** Training whose weights, sums and counts are operator state. */
    static class Kept extends Logistic.Train implements CheckpointedFunction {
        private transient ListState<double[]> kept;

        Kept(int columns, int microBatch, double rate) {
            super(columns, Long.MAX_VALUE / 2, 0, microBatch, rate);
        }

        @Override
        public void snapshotState(FunctionSnapshotContext context) throws Exception {
            kept.update(List.of(weights, gradient, new double[] {count, epoch}));
        }

        @Override
        public void initializeState(FunctionInitializationContext context) throws Exception {
            kept = context.getOperatorStateStore().getListState(new ListStateDescriptor<>("model", double[].class));
        }

        @Override
        public void open(OpenContext context) {
            super.open(context);
            try {
                List<double[]> restored = new ArrayList<>();
                kept.get().forEach(restored::add);
                if (!restored.isEmpty()) {
                    weights = restored.get(0);
                    gradient = restored.get(1);
                    count = (long) restored.get(2)[0];
                    epoch = (long) restored.get(2)[1];
                }
            } catch (Exception error) {
                throw new IllegalStateException("cannot read the checkpoint", error);
            }
        }
    }
}
