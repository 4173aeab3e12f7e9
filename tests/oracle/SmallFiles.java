import java.io.File;
import org.apache.kafka.metadata.properties.MetaPropertiesEnsemble;
import org.apache.kafka.raft.FileQuorumStateStore;

/** Prints what Apache Kafka reads from the data directories named: quorum-state, meta.properties. */
public class SmallFiles {
    public static void main(String[] directories) throws Exception {
        for (String directory : directories) {
            File state = new File(directory, "__cluster_metadata-0/quorum-state");
            System.out.println(new FileQuorumStateStore(state).readElectionState().get());
            MetaPropertiesEnsemble.Loader loader = new MetaPropertiesEnsemble.Loader();
            loader.addMetadataLogDir(directory);
            System.out.println(loader.load().logDirProps().get(directory));
        }
    }
}
